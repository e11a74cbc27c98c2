// The picture as a list of shapes (see paint.js): the machine as it was answered, the points as they are now.

import { levelLines, nearest, regionLines } from "./contours.js";
import { MARKS } from "./paint.js";
import { ticks } from "./view.js";

const RADIUS = 5.2; // of a point, in pixels; smaller if there are many, or if the picture is small
const FULL_SIZE = 620; // side of a square picture from which on points have their full size
const FULL_SHADE = 1.6; // size of a decision from which on the shade is darkest

/** The colours and sizes that the style sheet defines. */
export function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    plot: value("plot"), ink: value("ink"), muted: value("muted"), line: value("line"), step: value("step"), shade: Number(value("shade")),
    classes: MARKS.map((_, k) => value(`class-${k}`)),
  };
}

/** The shapes of the whole picture. `shown` says which of margins, slack and support are drawn. */
export function makeScene({ points, answer, view, theme, shown, regression, oneClass, axes }) {
  const scene = [];
  if (answer) scene.push(...(regression ? curve : field)(answer, view, theme, shown, oneClass));
  scene.push(...frame(view, theme, axes));
  if (answer && shown.slack) scene.push(...slack(points, answer, view, theme, regression, oneClass));
  scene.push(...marks(points, answer, view, theme, shown, regression || oneClass));
  return scene;
}

function frame(view, theme, axes) {
  const [left, right, bottom, top] = view.window;
  const shapes = [];
  for (const [x, label] of ticks(left, right, view.width / 110)) {
    const at = view.px(x);
    shapes.push({ line: [at, 0, at, view.height], stroke: theme.ink, alpha: 0.06 });
    if (at > 40 && at < view.width - 20) shapes.push({ text: label, x: at, y: view.height - 8, size: 11, fill: theme.muted, anchor: "middle" });
  }
  for (const [y, label] of ticks(bottom, top, view.height / 90)) {
    const at = view.py(y);
    shapes.push({ line: [0, at, view.width, at], stroke: theme.ink, alpha: 0.06 });
    if (at > 20 && at < view.height - 28) shapes.push({ text: label, x: 8, y: at + 4, size: 11, fill: theme.muted });
  }
  if (axes) {
    shapes.push({ text: axes[0], x: view.width - 10, y: view.height - 24, size: 12, fill: theme.ink, anchor: "end" });
    shapes.push({ text: axes[1], x: 8, y: 18, size: 12, fill: theme.ink });
  }
  return shapes;
}

// --- the machine ---------------------------------------------------------------------------------------------------

/** Lines of the grid, in pixels of the view; the window of the answer may be another one than that of the view. */
function toPixels(lines, { nx, ny, window: [left, right, bottom, top] }, view) {
  const stepX = (right - left) / (nx - 1), stepY = (top - bottom) / (ny - 1);
  return lines.map((line) => line.map((v, k) => (k % 2 ? view.py(bottom + v * stepY) : view.px(left + v * stepX))));
}

function lines(answer, view, level) {
  answer.lines ??= new Map(); // the same lines are drawn again while a point is dragged and the next answer is on its way
  if (!answer.lines.has(level)) answer.lines.set(level, levelLines(answer.planes[0], answer.nx, answer.ny, level));
  return toPixels(answer.lines.get(level), answer, view);
}

function field(answer, view, theme, shown, oneClass) {
  const shapes = [stretched(shadedField(answer, theme, oneClass), answer, view)];
  if (answer.labels) {
    answer.regions ??= regionLines(answer.labels, answer.planes, answer.classes.length, answer.nx, answer.ny);
    for (const line of toPixels(answer.regions, answer, view)) shapes.push({ line, stroke: theme.ink, width: 1.8 });
    return shapes;
  }
  for (const line of lines(answer, view, 0)) shapes.push({ line, stroke: theme.ink, width: 2.2 });
  if (shown.margins && !oneClass) {
    for (const level of [-1, 1]) {
      for (const line of lines(answer, view, level)) shapes.push({ line, stroke: theme.ink, width: 1.3, dash: [6, 5], alpha: 0.85 });
    }
  }
  return shapes;
}

/** A small canvas with a pixel for each node of the grid: the colour of the class, denser where the decision is larger. */
function shadedField(answer, theme, oneClass) {
  const key = theme.plot + theme.shade;
  if (answer.shaded?.key === key) return answer.shaded.canvas;
  const { nx, ny, labels, classes, planes } = answer;
  const canvas = Object.assign(document.createElement("canvas"), { width: nx, height: ny });
  const context = canvas.getContext("2d");
  const image = context.createImageData(nx, ny);
  const pixels = new Uint32Array(image.data.buffer);
  const colour = (k) => {
    const [r, g, b] = theme.classes[k].match(/\w\w/g).map((hex) => parseInt(hex, 16));
    return (b << 16) | (g << 8) | r;
  };
  const alphas = (share) => Math.round(255 * theme.shade * share) << 24;
  if (labels) {
    const shades = classes.map((k) => alphas(0.62) | colour(k));
    for (let j = 0; j < ny; j++) for (let i = 0; i < nx; i++) pixels[(ny - 1 - j) * nx + i] = shades[labels[j * nx + i]];
  } else {
    const plane = planes[0];
    const [below, above] = oneClass ? [0, colour(0)] : [colour(classes[0]), colour(classes[1])];
    const full = oneClass ? plane.reduce((most, f) => Math.max(most, f), 1e-12) : FULL_SHADE;
    for (let j = 0; j < ny; j++) {
      for (let i = 0; i < nx; i++) {
        const f = plane[j * nx + i];
        const share = oneClass ? (f > 0 ? 0.25 + 0.75 * Math.min(1, f / full) : 0) : Math.min(1, Math.abs(f) / full);
        pixels[(ny - 1 - j) * nx + i] = alphas(share) | (f > 0 ? above : below);
      }
    }
  }
  context.putImageData(image, 0, 0);
  answer.shaded = { key, canvas };
  return canvas;
}

/** The shape of a canvas whose pixels are centred on the nodes of the grid. */
function stretched(image, { nx, ny, window: [left, right, bottom, top] }, view) {
  const halfX = (right - left) / (nx - 1) / 2, halfY = (top - bottom) / (ny - 1) / 2;
  const x = view.px(left - halfX), y = view.py(top + halfY);
  return { image, x, y, width: view.px(right + halfX) - x, height: view.py(bottom - halfY) - y };
}

function curve(answer, view, theme, shown) {
  const { nx, epsilon, planes: [values], window: [left, right] } = answer;
  const along = (shift) => {
    const line = [];
    for (let i = 0; i < nx; i++) line.push(view.px(left + ((right - left) * i) / (nx - 1)), view.py(values[i] + shift));
    return line;
  };
  const [upper, middle, lower] = [along(epsilon), along(0), along(-epsilon)];
  const back = [];
  for (let k = lower.length - 2; k >= 0; k -= 2) back.push(lower[k], lower[k + 1]);
  const shapes = [{ line: [...upper, ...back], fill: theme.classes[0], alpha: theme.shade * 0.55 }];
  if (shown.margins) for (const line of [upper, lower]) shapes.push({ line, stroke: theme.ink, width: 1.3, dash: [6, 5], alpha: 0.85 });
  shapes.push({ line: middle, stroke: theme.ink, width: 2.2 });
  return shapes;
}

// --- the points ----------------------------------------------------------------------------------------------------

/** A line from each point on the wrong side of its margin to the nearest place where it would have no slack. */
function slack(points, answer, view, theme, regression, oneClass) {
  if (answer.labels) return [];
  const shapes = [];
  const targets = new Map(regression ? [] : (oneClass ? [0] : [-1, 1]).map((level) => [level, lines(answer, view, level)]));
  const draw = (point, to, colour) => {
    const from = [view.px(point.x), view.py(point.y)];
    shapes.push({ line: [...from, ...to], stroke: colour, width: 1.1, alpha: 0.75 }, { mark: "circle", x: to[0], y: to[1], r: 1.7, fill: colour });
  };
  for (const point of points) {
    const value = answer.valueOf.get(point);
    if (value === undefined) continue;
    if (regression) {
      const off = point.y - value;
      if (Math.abs(off) > answer.epsilon) {
        draw(point, [view.px(point.x), view.py(value + Math.sign(off) * answer.epsilon)], theme.classes[0]);
      }
      continue;
    }
    const side = oneClass || point.c === answer.classes[1] ? 1 : -1;
    const wanted = oneClass ? 0 : side;
    if (side * (wanted - value) <= 1e-6) continue;
    const to = nearest(targets.get(wanted), view.px(point.x), view.py(point.y));
    if (to) draw(point, to, theme.classes[oneClass ? 0 : point.c]);
  }
  return shapes;
}

function marks(points, answer, view, theme, shown, oneColour) {
  const room = Math.min(1, Math.sqrt(view.width * view.height) / FULL_SIZE);
  const radius = RADIUS * Math.max(0.55, room * Math.min(1, Math.sqrt(260 / points.length)));
  const shapes = [];
  const moved = new Set((answer?.moved ?? []).map(({ point }) => point));
  const places = [];
  for (const point of points) {
    const x = view.px(point.x), y = view.py(point.y), kind = oneColour ? 0 : point.c;
    const support = shown.support ? answer?.supportOf.get(point) : undefined;
    shapes.push({ mark: MARKS[kind], x, y, r: radius, fill: theme.classes[kind], stroke: theme.plot, width: 1.2 });
    if (support === "free") shapes.push({ mark: "circle", x, y, r: radius + 3.6, stroke: theme.ink, width: 1.7 });
    if (support === "bound") shapes.push({ mark: "circle", x, y, r: radius + 3.6, stroke: theme.ink, width: 1.5, dash: [1.6, 2.4], alpha: 0.8 });
    if (moved.has(point)) {
      places.push(x, y);
      shapes.push({ mark: "circle", x, y, r: radius + 7.5, stroke: theme.step, width: 2.4 });
    }
  }
  if (places.length === 4) shapes.push({ line: places, stroke: theme.step, width: 1.4, dash: [3, 4] });
  return shapes;
}
