// Questions to the server. Addresses are relative to the page, so they begin with its token.

/** An error that the server has put into words for the user. */
export class Refused extends Error {}

async function ask(address, options) {
  let response;
  try {
    response = await fetch(address, options);
  } catch {
    throw new Refused("The server does not answer: is `maxmargin play` still running?");
  }
  if (!response.ok) {
    const told = await response.json().catch(() => ({}));
    throw new Refused(told.error ?? `The server answered ${response.status}.`);
  }
  return response;
}

export const getSet = async (name, seed) => (await ask(`sets/${name}?seed=${seed}`)).json();

export async function readCsv(file, columns, standardise) {
  const query = new URLSearchParams({ name: file.name, columns: columns.join(","), standardise: standardise ? "1" : "0" });
  return (await ask(`csv?${query}`, { method: "POST", body: file })).json();
}

export const getScript = async (task) => (await ask("script", { method: "POST", body: JSON.stringify(task) })).text();

/** Fit the machine of a task. The answer has the header's fields, and `planes` and `labels` on the grid of nx times ny nodes. */
export async function fit(task) {
  const body = await (await ask("fit", { method: "POST", body: JSON.stringify(task) })).arrayBuffer();
  const length = new DataView(body).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(body, 4, length)));
  const [nx, ny] = task.grid;
  const several = header.classes.length > 2;
  const nodes = header.epsilon === null ? nx * ny : nx;
  const count = several ? (header.classes.length * (header.classes.length - 1)) / 2 : 1;
  const planes = Array.from({ length: count }, (_, k) => new Float32Array(body, 4 + length + 4 * k * nodes, nodes));
  const labels = several
    ? new Uint8Array(body, 4 + length + 4 * count * nodes, nodes).map((label) => header.classes.indexOf(label))
    : null;
  return { ...header, nx, ny, window: task.window, planes, labels };
}
