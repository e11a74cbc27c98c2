// Two ways to show a scene, which is a list of shapes: on a canvas, and as SVG.
//
//   {image, x, y, width, height}                            a small canvas, stretched
//   {line: [x0, y0, x1, y1, …], stroke, width, dash, fill, alpha}
//   {mark: "circle" | "square" | …, x, y, r, fill, stroke, width, dash, alpha}
//   {text, x, y, size, fill, anchor: "start" | "middle" | "end"}

export const MARKS = ["circle", "square", "triangle", "diamond", "wedge"];
const CORNERS = { // of marks of radius one, with about the same area
  square: [-0.87, -0.87, 0.87, -0.87, 0.87, 0.87, -0.87, 0.87],
  triangle: [0, -1.15, 1.12, 0.85, -1.12, 0.85],
  diamond: [0, -1.2, 1.2, 0, 0, 1.2, -1.2, 0],
  wedge: [0, 1.15, 1.12, -0.85, -1.12, -0.85],
};
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', sans-serif";

const outline = ({ mark, x, y, r }) => CORNERS[mark].map((corner, k) => corner * r + (k % 2 ? y : x));

export function paint(context, scene) {
  for (const shape of scene) {
    context.globalAlpha = shape.alpha ?? 1;
    if (shape.image) {
      context.imageSmoothingEnabled = true;
      context.drawImage(shape.image, shape.x, shape.y, shape.width, shape.height);
    } else if (shape.text !== undefined) {
      context.font = `${shape.size}px ${FONT}`;
      context.textAlign = shape.anchor === "middle" ? "center" : (shape.anchor ?? "start");
      context.fillStyle = shape.fill;
      context.fillText(shape.text, shape.x, shape.y);
    } else {
      context.beginPath();
      if (shape.mark === "circle") context.arc(shape.x, shape.y, shape.r, 0, 2 * Math.PI);
      else trace(context, shape.line ?? outline(shape), Boolean(shape.mark));
      if (shape.fill) {
        context.fillStyle = shape.fill;
        context.fill();
      }
      if (shape.stroke) {
        context.strokeStyle = shape.stroke;
        context.lineWidth = shape.width ?? 1;
        context.lineJoin = "round";
        context.setLineDash(shape.dash ?? []);
        context.stroke();
      }
    }
  }
  context.globalAlpha = 1;
}

function trace(context, line, closed) {
  context.moveTo(line[0], line[1]);
  for (let k = 2; k < line.length; k += 2) context.lineTo(line[k], line[k + 1]);
  if (closed) context.closePath();
}

export function toSvg(scene, width, height, background) {
  const number = (value) => Number(value.toFixed(2));
  const shapes = scene.map((shape) => {
    const look = [
      `fill="${shape.fill ?? "none"}"`,
      shape.stroke ? `stroke="${shape.stroke}" stroke-width="${shape.width ?? 1}" stroke-linejoin="round"` : "",
      shape.dash ? `stroke-dasharray="${shape.dash.join(" ")}"` : "",
      shape.alpha !== undefined ? `opacity="${shape.alpha}"` : "",
    ].filter(Boolean).join(" ");
    if (shape.image) {
      const place = ["x", "y", "width", "height"].map((name) => `${name}="${number(shape[name])}"`).join(" ");
      return `<image ${place} preserveAspectRatio="none" href="${shape.image.toDataURL()}"/>`;
    }
    if (shape.text !== undefined) {
      const text = String(shape.text).replace(/&/g, "&amp;").replace(/</g, "&lt;");
      return `<text x="${number(shape.x)}" y="${number(shape.y)}" font-size="${shape.size}" text-anchor="${shape.anchor ?? "start"}" ${look}>${text}</text>`;
    }
    if (shape.mark === "circle") return `<circle cx="${number(shape.x)}" cy="${number(shape.y)}" r="${number(shape.r)}" ${look}/>`;
    const line = (shape.line ?? outline(shape)).map(number);
    return `<path d="M${line.join(" ")}${shape.mark ? "Z" : ""}" ${look}/>`;
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="${FONT}">`,
    `<rect width="${width}" height="${height}" fill="${background}"/>`,
    ...shapes,
    "</svg>",
    "",
  ].join("\n");
}
