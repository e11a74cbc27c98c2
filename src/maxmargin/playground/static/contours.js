// Lines on a grid of values: where a function has a level, and where the predicted class changes.
//
// A plane holds nx * ny values, row by row from the bottom. Lines are lists of coordinates [x0, y0, x1, y1, …] in units of the
// grid: node (i, j) is at x = i, y = j.

// Marching squares. Bit k of a case says that corner k (bottom left, bottom right, top right, top left) is above the level;
// each entry lists pairs of crossed edges (0 bottom, 1 right, 2 top, 3 left). Cases 5 and 10 depend on the value in the middle.
const CROSSED = [
  [], [3, 0], [0, 1], [3, 1], [1, 2], [3, 0, 1, 2], [0, 2], [3, 2], [2, 3], [0, 2], [0, 1, 2, 3], [1, 2], [1, 3], [0, 1], [3, 0], [],
];

/** The lines on which a plane has this level, each as long as it is connected; the first point is repeated where one is closed. */
export function levelLines(plane, nx, ny, level) {
  const n = nx * ny;
  const place = new Map(); // crossed edge → where it is crossed
  const links = new Map(); // crossed edge → the crossed edges that a cell connects it to
  const link = (a, b) => (links.has(a) ? links.get(a).push(b) : links.set(a, [b]));
  for (let j = 0; j + 1 < ny; j++) {
    for (let i = 0; i + 1 < nx; i++) {
      const k = j * nx + i;
      const a = plane[k] - level, b = plane[k + 1] - level, c = plane[k + nx + 1] - level, d = plane[k + nx] - level;
      let corners = (a > 0) | ((b > 0) << 1) | ((c > 0) << 2) | ((d > 0) << 3);
      if (corners === 0 || corners === 15) continue;
      if ((corners === 5 || corners === 10) && a + b + c + d > 0) corners = 15 - corners;
      const edges = [k, n + k + 1, k + nx, n + k];
      const crossed = CROSSED[corners];
      for (let s = 0; s < crossed.length; s++) {
        const edge = crossed[s];
        if (!place.has(edges[edge])) {
          place.set(edges[edge], [
            [i + a / (a - b), j], [i + 1, j + b / (b - c)], [i + d / (d - c), j + 1], [i, j + a / (a - d)],
          ][edge]);
        }
        if (s % 2) {
          link(edges[edge], edges[crossed[s - 1]]);
          link(edges[crossed[s - 1]], edges[edge]);
        }
      }
    }
  }
  const lines = [];
  const follow = (start) => {
    const line = [];
    for (let edge = start, next; edge !== undefined; edge = next) {
      line.push(...place.get(edge));
      next = links.get(edge).pop();
      if (next === undefined) break;
      const back = links.get(next);
      back.splice(back.indexOf(edge), 1);
    }
    if (line.length > 2) lines.push(line);
  };
  for (const [edge, to] of links) if (to.length === 1) follow(edge); // open lines from their ends
  for (const [edge, to] of links) if (to.length) follow(edge); // closed ones from anywhere
  return lines;
}

/** The number of the pair i < j of n classes, in the order (0, 1), (0, 2), …, (1, 2), …. */
export function pairNumber(i, j, n) {
  return i * n - (i * (i + 1)) / 2 + j - i - 1;
}

/** Lines between the regions of several classes. `labels` are numbers of classes; the planes of the pairs say where on an edge of
 *  the grid the class changes: where the decision of the pair, positive for the smaller number, is zero. */
export function regionLines(labels, planes, n, nx, ny) {
  const lines = [];
  const crossing = (a, b) => {
    const [low, high] = labels[a] < labels[b] ? [labels[a], labels[b]] : [labels[b], labels[a]];
    const plane = planes[pairNumber(low, high, n)];
    return plane[a] > 0 !== plane[b] > 0 ? plane[a] / (plane[a] - plane[b]) : 0.5;
  };
  for (let j = 0; j + 1 < ny; j++) {
    for (let i = 0; i + 1 < nx; i++) {
      const a = j * nx + i, b = a + 1, d = a + nx, c = d + 1;
      if (labels[a] === labels[b] && labels[a] === labels[c] && labels[a] === labels[d]) continue;
      const points = [];
      if (labels[a] !== labels[b]) points.push([i + crossing(a, b), j]);
      if (labels[b] !== labels[c]) points.push([i + 1, j + crossing(b, c)]);
      if (labels[d] !== labels[c]) points.push([i + crossing(d, c), j + 1]);
      if (labels[a] !== labels[d]) points.push([i, j + crossing(a, d)]);
      if (points.length === 2) {
        lines.push(points.flat());
        continue;
      }
      const middle = [0, 1].map((axis) => points.reduce((sum, point) => sum + point[axis], 0) / points.length);
      for (const point of points) lines.push([...point, ...middle]);
    }
  }
  return lines;
}

/** The point of some lines that is nearest to (x, y); null without lines. */
export function nearest(lines, x, y) {
  let best = Infinity, found = null;
  for (const line of lines) {
    for (let k = 0; k + 3 < line.length; k += 2) {
      const ax = line[k], ay = line[k + 1], ux = line[k + 2] - ax, uy = line[k + 3] - ay;
      const along = ((x - ax) * ux + (y - ay) * uy) / (ux * ux + uy * uy || 1);
      const t = Math.min(1, Math.max(0, along));
      const px = ax + t * ux, py = ay + t * uy;
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance < best) {
        best = distance;
        found = [px, py];
      }
    }
  }
  return found;
}
