// The page: its state, what the controls do to it, and the questions to the server that follow.

import { Refused, fit, getScript, getSet, readCsv } from "./api.js";
import { paintCourse } from "./course.js";
import { attachHands } from "./hands.js";
import { MARKS, paint, toSvg } from "./paint.js";
import { Parameters } from "./parameters.js";
import { makeScene, readTheme } from "./scene.js";
import { View, boxAround } from "./view.js";

const NODES = 20000, NODES_WHILE_DRAGGING = 7000; // nodes of the grid for up to three planes of decisions
const MOST_POINTS = 1000; // as in task.py
const MOST_UNDONE = 100;
const PATIENCE = 20; // milliseconds after which a change is drawn before it is answered
const MOST_MEASURED = 1000; // pictures whose times the browser keeps
const FRAMES = 160; // most pictures of a course of SMO that is played
const FRAME_SECONDS = 0.06;
const LOSSES = {
  SVC: { plain: "hinge", squared: "squared_hinge" },
  SVR: { plain: "epsilon_insensitive", squared: "squared_epsilon_insensitive" },
};

const element = (id) => document.getElementById(id);
const canvas = element("canvas");

// --- state ---------------------------------------------------------------------------------------------------------

let points = []; // {x, y, c}
let box = boxAround([]);
let view = new View(box, 1, 1);
let axes = null;
let theme = readTheme();
let answer = null; // of the server, about the points at that time
let before = []; // what Undo goes back to: the points before each change
let kept = null; // the points before a change that has not happened yet
let chosenClass = 0;
let dragging = false;
let measured = 0;
let soon = null; // a drawing that has been put off
const shown = { margins: true, slack: true, support: true };
const file = { content: null, columns: [] };
const watch = { on: false, step: 0, total: null, playing: false, seen: new Map() };

const machine = () => element("machine").value;
const isRegression = () => ["SVR", "NuSVR"].includes(machine());
const isOneClass = () => machine() === "OneClassSVM";
const tool = () => document.querySelector("input[name=tool]:checked").value;

// --- the picture ---------------------------------------------------------------------------------------------------

function scene() {
  return makeScene({ points, answer, view, theme, shown, regression: isRegression(), oneClass: isOneClass(), axes });
}

function draw() {
  clearTimeout(soon);
  soon = null;
  const ratio = window.devicePixelRatio || 1;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, view.width, view.height);
  paint(context, [...scene(), ...cursorShapes(theme)]);
}

function resize() {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (!width || !height) return;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  view = new View(box, width, height);
  draw(); // a new size has emptied the canvas
  if (points.length) refresh();
}

// --- the server ----------------------------------------------------------------------------------------------------

let asking = false;
let askedAt = null; // time of the first change that has not been answered

/** Ask the server for the machine after a change; while it answers, further changes wait for the next question. Most answers come
 *  before the next frame of the screen, and then one drawing is enough; if not, the points are drawn without waiting further. */
function refresh(since = performance.now()) {
  askedAt ??= since;
  watch.total = watch.on ? null : watch.total;
  if (!asking) ask();
  soon ??= setTimeout(draw, PATIENCE);
}

async function ask() {
  setAsking(true);
  try {
    while (askedAt !== null) {
      const since = askedAt;
      askedAt = null;
      await findAnswer();
      draw();
      showAnswer();
      measure(since);
    }
  } finally {
    setAsking(false);
  }
}

function setAsking(now) {
  asking = now;
  element("plot").setAttribute("aria-busy", now);
}

async function findAnswer() {
  try {
    await fitPoints();
    complain(null);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    answer = null;
    complain(error.message);
  }
}

async function fitPoints() {
  if (!points.length) {
    answer = null;
    return;
  }
  if (watch.on && watch.total === null) {
    const whole = await fit({ ...task(), steps: null, grid: [2, 2] });
    watch.total = whole.steps;
    watch.step = Math.min(watch.step, watch.total);
    watch.seen = new Map(whole.course.map(([step, primal, dual]) => [step, { primal, dual }]));
  }
  const asked = [...points], question = task();
  const found = await fit(question);
  if (question.machine !== machine()) return; // it would be drawn as another kind of picture; the next question is about the new one
  found.supportOf = new Map(found.support.map((k, place) => [asked[k], found.free[place] ? "free" : "bound"]));
  found.valueOf = new Map(found.values?.map((value, k) => [asked[k], value]));
  found.moved = (found.moved ?? []).map(([k, before, after]) => ({ point: asked[k], number: k + 1, before, after }));
  answer = found;
  if (watch.on) watch.seen.set(watch.step, answer.certificate);
}

/** The request about the machine as it is now. */
function task() {
  const kinds = new Set(points.map((point) => point.c)).size;
  const pairs = isRegression() || isOneClass() ? 1 : Math.max(1, (kinds * (kinds - 1)) / 2);
  const nodes = (dragging ? NODES_WHILE_DRAGGING : NODES) / Math.max(1, pairs / 3);
  const side = Math.max(4, Math.sqrt((view.width * view.height) / nodes)); // pixels of a cell
  const columns = Math.max(2, Math.round(view.width / side)), rows = Math.max(2, Math.round(view.height / side));
  return {
    machine: machine(),
    parameters: { ...parameters.forRequest(), kernel: element("kernel").value, loss: LOSSES[machine()]?.[element("loss").value] },
    points: points.map(({ x, y, c }) => [x, y, c]),
    window: view.window,
    grid: isRegression() ? [Math.min(600, Math.round(view.width)), 2] : [columns, rows],
    ...(watch.on ? { solver: element("solver").value, steps: watch.step } : {}),
  };
}

function measure(since) {
  element("speed").textContent = count(points.length, "point");
  element("times").textContent = "";
  if (!answer) return;
  measured += 1;
  if (measured % MOST_MEASURED === 0) performance.clearMeasures();
  const { duration } = performance.measure("move to picture", { start: since, end: performance.now() });
  element("times").textContent = `fit ${answer.milliseconds.fit.toFixed(1)} ms, picture ${duration.toFixed(0)} ms`;
}

// --- what is told --------------------------------------------------------------------------------------------------

const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
const raised = (digits) => digits.replace(/./g, (digit) => (digit === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]));

/** A number as people write it, with so many digits: 0.0123, −4.5, 6.6·10⁻¹³. */
function number(value, digits = 7) {
  if (value === null) return "∞";
  const size = Math.abs(value);
  if (size === 0 || (size >= 1e-3 && size < 1e6)) return String(Number(value.toPrecision(digits))).replace("-", "−");
  const [mantissa, exponent] = value.toExponential(Math.min(digits, 3) - 1).split("e");
  return `${mantissa.replace("-", "−")}·10${raised(exponent.replace("+", ""))}`;
}

function complain(message) {
  element("problem").hidden = !message;
  element("problem").textContent = message ?? "";
}

function showAnswer() {
  element("hint").hidden = points.length > 0;
  element("undo").disabled = before.length === 0;
  element("again").disabled = ["", "iris"].includes(element("set").value);
  const status = element("status"), fill = element("gauge").firstElementChild;
  status.className = `status ${answer ? (answer.converged ? "good" : "warn") : ""}`;
  status.textContent = answer?.status ?? (points.length ? "There is no machine." : "No points yet.");
  const proof = answer?.certificate;
  const closed = !proof ? 0 : proof.relative_gap === null ? 0 : proof.relative_gap === 0 ? 1 : -Math.log10(proof.relative_gap) / 8;
  fill.style.width = `${100 * Math.min(1, Math.max(0, closed))}%`;
  element("numbers").replaceChildren(...(answer ? rows(answer) : []).flatMap(([name, value]) => [
    Object.assign(document.createElement("dt"), { textContent: name }),
    Object.assign(document.createElement("dd"), { textContent: value, id: `number-${name.replace(/\W+/g, "-")}` }),
  ]));
  for (const id of ["show-margins", "show-slack"]) element(id).hidden = Boolean(answer?.labels) || (id === "show-margins" && isOneClass());
  if (answer) parameters.resolve(answer.gamma);
  showWatch();
}

function rows({ certificate, support, free, score }) {
  const inside = free.filter(Boolean).length;
  return [
    ["Primal value", number(certificate.primal)],
    ["Dual value", number(certificate.dual)],
    ["Duality gap", number(certificate.gap, 2)],
    ["Relative gap", number(certificate.relative_gap, 2)],
    ["KKT violation", number(certificate.kkt_violation, 2)],
    ["Support vectors", `${support.length}: ${inside} free, ${support.length - inside} at the bound`],
    isOneClass() ? ["Outliers", `${score} of ${points.length}`]
      : isRegression() ? ["Training R²", score === null ? "–" : score.toFixed(3)]
        : ["Training accuracy", `${(100 * score).toFixed(1)} %`],
  ];
}

function say(message) {
  element("spoken").textContent = message;
}

// --- points --------------------------------------------------------------------------------------------------------

/** After a drag: the picture once more, with the full grid. */
async function settle() {
  if (!dragging) return;
  dragging = false;
  while (asking) await pause(0.01);
  refresh();
}

const page = {
  get points() { return points; },
  get tool() { return tool(); },
  draw,
  say,
  /** Keep the points as they are now for Undo, if a change follows. */
  remember() {
    kept = points.map((point) => ({ ...point }));
  },
  undo() {
    kept = null;
    if (before.length) change(before.pop());
  },
  pointAt(px, py, reach) {
    let found = null, best = reach ** 2;
    for (const point of points) {
      const distance = (view.px(point.x) - px) ** 2 + (view.py(point.y) - py) ** 2;
      if (distance <= best) [found, best] = [point, distance];
    }
    return found;
  },
  pixelsOf: (point) => [view.px(point.x), view.py(point.y)],
  describe: (point) => `class ${point.c + 1} at ${point.x}, ${point.y}`,
  add(px, py, since) {
    const point = { x: view.x(px), y: view.y(py), c: isRegression() || isOneClass() ? 0 : chosenClass };
    if (points.length >= MOST_POINTS) {
      complain(`${MOST_POINTS} points are drawn, and more are not possible: erase some`);
      return point;
    }
    points.push(point);
    changedPoints(since);
    return point;
  },
  move(point, px, py, since) {
    const [x, y] = [view.x(px), view.y(py)];
    if (x === point.x && y === point.y) return;
    Object.assign(point, { x, y });
    dragging = true;
    changedPoints(since);
  },
  remove(point, since) {
    points = points.filter((other) => other !== point);
    changedPoints(since);
  },
  settle,
  chooseClass(k) {
    chosenClass = k;
    element(`class-${k}`).checked = true;
    say(`class ${k + 1}`);
  },
  step: (direction) => toStep(watch.step + direction),
};

function changedPoints(since) {
  element("set").value = "";
  keepForUndo();
  refresh(since);
}

function keepForUndo() {
  if (kept) before = [...before, kept].slice(-MOST_UNDONE);
  kept = null;
}

/** Replace the points, and show all of them if `fits` says so or if some would be outside the window. */
function change(to, fits = false) {
  keepForUndo();
  points = to;
  const [left, right, bottom, top] = view.window;
  if (fits || points.some(({ x, y }) => x < left || x > right || y < bottom || y > top)) {
    box = boxAround(points);
    view = new View(box, canvas.clientWidth, canvas.clientHeight);
    answer = null;
  }
  refresh();
}

// --- data ----------------------------------------------------------------------------------------------------------

let seed = 0;

/** Load what the server answers; `name` is the entry of the list of sets to show, "" for a file. */
async function load(question, name) {
  try {
    const set = await question;
    page.remember();
    const suits = set.machine === "SVC" ? ["SVC", "NuSVC"] : set.machine === "SVR" ? ["SVR", "NuSVR"] : [set.machine];
    if (!suits.includes(machine())) element("machine").value = set.machine;
    axes = set.axes ?? null;
    changedMachine();
    element("set").value = name;
    change(set.points.map(([x, y, c]) => ({ x, y, c })), true);
    return set;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    complain(error.message);
    return null;
  }
}

function loadSet() {
  element("columns").hidden = true;
  const name = element("set").value;
  if (name) load(getSet(name, seed), name);
}

async function loadFile() {
  const set = await load(readCsv(file.content, file.columns, element("standardise").checked), "");
  if (!set) return;
  element("columns").hidden = false;
  element("column-y-field").hidden = set.chosen.length < 2;
  for (const [place, id] of [[0, "column-x"], [1, "column-y"]]) {
    element(id).replaceChildren(...set.columns.map((name, k) => new Option(name, k, false, k === set.chosen[place])));
  }
}

// --- SMO, step by step ---------------------------------------------------------------------------------------------

function showWatch() {
  const possible = machine() === "SVC";
  element("watch").disabled = !possible;
  element("watch").title = possible ? "" : "SVC can be trained step by step";
  element("watch").setAttribute("aria-pressed", watch.on);
  element("transport").hidden = element("told").hidden = !watch.on;
  if (!watch.on) return;
  element("step").max = watch.total ?? 1;
  element("step").value = watch.step;
  element("back").disabled = element("first").disabled = watch.step === 0;
  element("forward").disabled = element("last").disabled = watch.total !== null && watch.step >= watch.total;
  element("go").setAttribute("aria-pressed", watch.playing);
  element("go").setAttribute("aria-label", watch.playing ? "Pause" : "Play");
  paintCourse(element("course"), watch.seen, watch.step, watch.total ?? 1, theme);
  const told = element("step-text");
  told.replaceChildren();
  if (!answer) return;
  const bold = Object.assign(document.createElement("b"), { textContent: `Step ${watch.step} of ${watch.total}. ` });
  const alphas = answer.moved.map(({ number: k, before, after }) => `α of point ${k}: ${number(before, 4)} → ${number(after, 4)}`);
  const start = watch.step ? "The step moved nothing." : "All α are zero: primal and dual value are as far apart as they get.";
  told.append(bold, alphas.length ? `${alphas.join(", ")}.` : start);
}

/** Go to a step that the user has chosen. */
function toStep(step) {
  watch.playing = false;
  showStep(step);
}

function showStep(step) {
  if (!watch.on || watch.total === null) return;
  watch.step = Math.min(watch.total, Math.max(0, step));
  askedAt ??= performance.now();
  if (!asking) ask();
}

function setWatching(on) {
  Object.assign(watch, { on, step: 0, total: null, playing: false });
  showWatch();
  refresh();
}

async function play() {
  watch.playing = !watch.playing;
  if (watch.playing && watch.step >= watch.total) watch.step = 0;
  showWatch();
  while (watch.playing) {
    showStep(watch.step + Math.ceil(watch.total / FRAMES));
    while (asking) await pause(FRAME_SECONDS / 4);
    watch.playing &&= watch.on && watch.total !== null && watch.step < watch.total;
    if (watch.playing) await pause(FRAME_SECONDS);
  }
  showWatch();
}

const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

// --- export --------------------------------------------------------------------------------------------------------

function save(name, content, type) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  Object.assign(document.createElement("a"), { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function savePicture() {
  const ratio = 2, copy = Object.assign(document.createElement("canvas"), { width: ratio * view.width, height: ratio * view.height });
  const context = copy.getContext("2d");
  context.fillStyle = theme.plot;
  context.fillRect(0, 0, copy.width, copy.height);
  context.scale(ratio, ratio);
  paint(context, scene());
  copy.toBlob((blob) => save("playground.png", blob));
}

function csv() {
  const lines = isRegression() ? points.map(({ x, y }) => `${x},${y}`) : points.map(({ x, y, c }) => `${x},${y},${c + 1}`);
  return [isRegression() ? "x,target" : "x1,x2,class", ...lines, ""].join("\n");
}

async function showPython() {
  try {
    element("code").textContent = await getScript(task());
    element("python").showModal();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    complain(error.message);
  }
}

async function copyPython() {
  await navigator.clipboard.writeText(element("code").textContent);
  element("copy").textContent = "Copied";
  setTimeout(() => (element("copy").textContent = "Copy"), 1500);
}

// --- controls ------------------------------------------------------------------------------------------------------

function changedMachine() {
  const kind = machine();
  parameters.choose(kind, element("kernel").value);
  element("loss-field").hidden = !(kind in LOSSES);
  element("loss").options[0].text = kind === "SVR" ? "absolute" : "hinge";
  element("swatches").disabled = isRegression() || isOneClass();
  element("key-line").textContent = isRegression() ? "f(x)" : "boundary";
  element("key-margins").textContent = isRegression() ? "tube f ± ε" : "margins ±1";
  if (kind !== "SVC") Object.assign(watch, { on: false, playing: false });
  answer = null; // it is about another kind of picture
  showWatch();
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  theme = readTheme();
  paintSwatches();
  draw();
  showWatch();
}

function paintSwatches() {
  for (const [k, mark] of MARKS.entries()) {
    const shape = toSvg([{ mark, x: 8, y: 8, r: 6, fill: theme.classes[k] }], 16, 16, "none");
    element(`class-${k}`).nextElementSibling.innerHTML = shape;
  }
}

function on(id, event, action) {
  element(id).addEventListener(event, action);
}

const parameters = new Parameters(element("sliders"), settle, (since, slides) => {
  dragging = slides;
  refresh(since);
});
const cursorShapes = attachHands(canvas, page);
for (const k of MARKS.keys()) {
  const label = document.createElement("label");
  label.title = `Class ${k + 1}`;
  label.innerHTML = `<input type="radio" name="class" id="class-${k}" aria-label="Class ${k + 1}"><span></span>`;
  element("swatches").append(label);
  label.firstElementChild.addEventListener("change", () => page.chooseClass(k));
}
for (const choice of document.querySelectorAll("#legend input")) {
  choice.addEventListener("change", () => {
    shown[choice.value] = choice.checked;
    draw();
  });
}
for (const radio of document.querySelectorAll("input[name=tool]")) {
  radio.addEventListener("change", () => canvas.classList.toggle("erase", tool() === "erase"));
}
for (const id of ["machine", "kernel", "loss"]) {
  on(id, "change", (event) => {
    changedMachine();
    refresh(event.timeStamp);
  });
}
on("set", "change", () => { seed = 0; loadSet(); });
on("again", "click", () => { seed += 1; loadSet(); });
on("file", "change", () => {
  Object.assign(file, { content: element("file").files[0], columns: [] });
  element("file").value = ""; // so that the same file can be opened again after a change
  if (file.content) loadFile();
});
for (const id of ["column-x", "column-y", "standardise"]) {
  on(id, "change", () => {
    file.columns = [Number(element("column-x").value), Number(element("column-y").value)];
    loadFile();
  });
}
on("undo", "click", () => page.undo());
on("clear", "click", () => {
  page.remember();
  axes = null;
  element("set").value = "";
  change([]);
});
on("watch", "click", () => setWatching(!watch.on));
on("solver", "change", () => setWatching(true));
on("first", "click", () => toStep(0));
on("back", "click", () => page.step(-1));
on("forward", "click", () => page.step(1));
on("last", "click", () => toStep(watch.total));
on("go", "click", play);
on("step", "input", () => toStep(Number(element("step").value)));
on("save-png", "click", savePicture);
on("save-svg", "click", () => save("playground.svg", toSvg(scene(), view.width, view.height, theme.plot), "image/svg+xml"));
on("save-csv", "click", () => save("playground.csv", csv(), "text/csv"));
on("show-python", "click", showPython);
on("copy", "click", copyPython);
on("save-python", "click", () => save("playground.py", element("code").textContent, "text/x-python"));
on("close", "click", () => element("python").close());
on("theme", "click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));

const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
setTheme(dark.matches ? "dark" : "light");
page.chooseClass(0);
changedMachine();
new ResizeObserver(resize).observe(canvas);
element("set").value = "moons";
loadSet();
