// The window: which part of the plane the picture shows, and where a point is in it.

const BORDER = 0.14; // around the points, as a share of their extent
const MOST_STRETCHED = 5; // if one axis is longer than the other by more than this, each gets its own scale
const EMPTY = [-3, 3, -2, 2];

/** The box around some points, with a border: [left, right, bottom, top]. */
export function boxAround(points) {
  if (!points.length) return EMPTY;
  const side = (values) => {
    const low = Math.min(...values), high = Math.max(...values);
    const border = high > low ? BORDER * (high - low) : 1;
    return [low - border, high + border];
  };
  return [...side(points.map((p) => p.x)), ...side(points.map((p) => p.y))];
}

/** The map between data and pixels, for a picture that shows at least the box. */
export class View {
  constructor([left, right, bottom, top], width, height) {
    const across = (right - left) / width, up = (top - bottom) / height;
    const equal = Math.max(across, up);
    const same = equal <= MOST_STRETCHED * Math.min(across, up);
    this.unitX = same ? equal : across;
    this.unitY = same ? equal : up;
    this.width = width;
    this.height = height;
    this.left = (left + right - this.unitX * width) / 2;
    this.bottom = (bottom + top - this.unitY * height) / 2;
  }

  get window() {
    return [this.left, this.left + this.unitX * this.width, this.bottom, this.bottom + this.unitY * this.height];
  }

  px(x) { return (x - this.left) / this.unitX; }
  py(y) { return this.height - (y - this.bottom) / this.unitY; }
  /** Data coordinates of a pixel, rounded to a tenth of a pixel so that they are short to write down. */
  x(px) { return rounded(this.left + px * this.unitX, this.unitX); }
  y(py) { return rounded(this.bottom + (this.height - py) * this.unitY, this.unitY); }
}

function rounded(value, unit) {
  const digits = Math.max(0, 1 - Math.floor(Math.log10(unit)));
  return Number(value.toFixed(Math.min(12, digits)));
}

/** Round numbers between low and high, about `count` of them. */
export function ticks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const digits = Math.max(0, -Math.floor(Math.log10(step)));
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high; k++) found.push([k * step, (k * step).toFixed(digits).replace("-", "−")]);
  return found;
}
