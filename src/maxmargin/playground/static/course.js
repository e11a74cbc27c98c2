// The small picture of a course of SMO: primal and dual value after the steps that were seen.

import { paint } from "./paint.js";

export function paintCourse(canvas, seen, step, total, theme) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const steps = [...seen.keys()].sort((a, b) => a - b);
  const values = steps.flatMap((k) => [seen.get(k).primal, seen.get(k).dual]).filter((value) => value !== null);
  if (!values.length) return;
  const low = Math.min(...values), high = Math.max(...values, low + 1e-12);
  const x = (k) => 3 + ((width - 6) * k) / Math.max(1, total);
  const y = (value) => height - 4 - ((height - 8) * (value - low)) / (high - low);
  const shapes = [{ line: [x(step), 0, x(step), height], stroke: theme.step, width: 1.4 }];
  for (const [name, colour] of [["primal", theme.classes[1]], ["dual", theme.classes[0]]]) {
    const known = steps.filter((k) => seen.get(k)[name] !== null);
    shapes.push({ line: known.flatMap((k) => [x(k), y(seen.get(k)[name])]), stroke: colour, width: 1.6 });
    if (seen.has(step)) shapes.push({ mark: "circle", x: x(step), y: y(seen.get(step)[name]), r: 2.6, fill: colour });
  }
  shapes.push({ text: "primal", x: width - 32, y: 11, size: 10.5, fill: theme.classes[1], anchor: "end" });
  shapes.push({ text: "dual", x: width - 4, y: 11, size: 10.5, fill: theme.classes[0], anchor: "end" });
  paint(context, shapes);
}
