// Pointer and keyboard on the picture. `page` does what they ask for: see main.js.

const REACH = { mouse: 11, pen: 14, touch: 22 }; // pixels within which a pointer hits a point
const STEP = 8, LONG_STEP = 40; // pixels that an arrow key moves the cursor, alone and with Shift
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export function attachHands(canvas, page) {
  let held = null; // the point that moves with the pointer or the cursor
  let erasing = false;
  const cursor = { x: 0, y: 0, visible: false };

  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [Math.min(box.width, Math.max(0, event.clientX - box.left)), Math.min(box.height, Math.max(0, event.clientY - box.top))];
  };
  const hit = (event) => page.pointAt(...place(event), REACH[event.pointerType] ?? REACH.mouse);

  canvas.addEventListener("pointerdown", (event) => {
    cursor.visible = false;
    const point = hit(event);
    erasing = page.tool === "erase" || event.button === 2;
    canvas.setPointerCapture(event.pointerId);
    if (erasing) {
      page.remember();
      if (point) page.remove(point, event.timeStamp);
    } else if (event.button === 0) {
      page.remember();
      held = point ?? page.add(...place(event), event.timeStamp);
      canvas.classList.add("held");
    }
  });
  canvas.addEventListener("pointermove", (event) => {
    if (held && !cursor.visible) page.move(held, ...place(event), event.timeStamp);
    else if (erasing && hit(event)) page.remove(hit(event), event.timeStamp);
    else canvas.classList.toggle("over", page.tool === "draw" && hit(event) !== null);
  });
  const release = () => {
    held = null;
    erasing = false;
    canvas.classList.remove("held");
    page.settle();
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());

  const showCursor = () => {
    if (!cursor.visible) Object.assign(cursor, { visible: true, x: cursor.x || canvas.clientWidth / 2, y: cursor.y || canvas.clientHeight / 2 });
  };
  const under = () => page.pointAt(cursor.x, cursor.y, REACH.mouse);
  const jump = (direction) => {
    const points = page.points;
    if (!points.length) return;
    const from = points.indexOf(under());
    const point = points[(from + direction + points.length + (from < 0 && direction < 0 ? 1 : 0)) % points.length];
    [cursor.x, cursor.y] = page.pixelsOf(point);
    page.say(`point ${points.indexOf(point) + 1} of ${points.length}, ${page.describe(point)}`);
  };

  canvas.addEventListener("keydown", (event) => {
    const command = event.ctrlKey || event.metaKey;
    if (command && event.key.toLowerCase() === "z") page.undo();
    else if (command || event.altKey) return;
    else if (event.key in ARROWS) {
      showCursor();
      const [dx, dy] = ARROWS[event.key].map((d) => d * (event.shiftKey ? LONG_STEP : STEP));
      cursor.x = Math.min(canvas.clientWidth, Math.max(0, cursor.x + dx));
      cursor.y = Math.min(canvas.clientHeight, Math.max(0, cursor.y + dy));
      if (held) page.move(held, cursor.x, cursor.y, event.timeStamp);
    } else if (event.key === " " || event.key === "Enter") {
      showCursor();
      const point = under();
      if (held) {
        page.say(`put down, ${page.describe(held)}`);
        held = null;
        page.settle();
      } else {
        page.remember();
        if (point) {
          held = point;
          page.say(`taken up, ${page.describe(point)}`);
        } else {
          page.say(`drawn, ${page.describe(page.add(cursor.x, cursor.y, event.timeStamp))}`);
        }
      }
    } else if (event.key === "Delete" || event.key === "Backspace") {
      const point = held ?? under();
      held = null;
      if (point) {
        page.remember();
        page.remove(point, event.timeStamp);
        page.say("erased");
      }
    } else if (event.key === "Escape") held = null;
    else if (event.key.toLowerCase() === "n" || event.key.toLowerCase() === "p") {
      held = null;
      showCursor();
      jump(event.key.toLowerCase() === "n" ? 1 : -1);
    } else if (/^[1-5]$/.test(event.key)) page.chooseClass(Number(event.key) - 1);
    else if (event.key === "." || event.key === ",") page.step(event.key === "." ? 1 : -1);
    else return;
    event.preventDefault();
    page.draw();
  });
  canvas.addEventListener("blur", () => {
    held = null;
    cursor.visible = false;
    page.draw();
  });

  /** The cross of the cursor, as shapes for the picture; nothing while the pointer is used. */
  return (theme) => {
    if (!cursor.visible) return [];
    const { x, y } = cursor, r = held ? 13 : 10, look = { stroke: theme.ink, width: 1.6 };
    return [
      { line: [x - r, y, x - 4, y], ...look }, { line: [x + 4, y, x + r, y], ...look },
      { line: [x, y - r, x, y - 4], ...look }, { line: [x, y + 4, x, y + r], ...look },
      ...(held ? [{ mark: "circle", x, y, r: r + 2, ...look }] : []),
    ];
  };
}
