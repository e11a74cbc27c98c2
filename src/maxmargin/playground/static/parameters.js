// The sliders of the parameters, each with a field for the exact value.

const SLIDERS = { // low and high are powers of ten where `log` is set
  C: { label: "C", title: "Price of slack", low: -3, high: 4, step: 0.05, log: true, value: 1 },
  nu: { label: "ν", title: "Share of margin errors or outliers", low: 0.01, high: 1, step: 0.01, value: 0.2 },
  epsilon: { label: "ε", title: "Half the width of the tube", low: 0, high: 1, step: 0.01, value: 0.2 },
  degree: { label: "degree", title: "Degree of the polynomial", low: 1, high: 8, step: 1, value: 3 },
  gamma: { label: "γ", title: "Coefficient of the kernel", low: -3, high: 3, step: 0.05, log: true, value: 1, automatic: "scale" },
  coef0: { label: "coef0", title: "Constant of the kernel", low: -2, high: 5, step: 0.1, value: 1 },
};
const OF_MACHINE = { SVC: ["C"], NuSVC: ["nu"], SVR: ["C", "epsilon"], NuSVR: ["C", "nu"], OneClassSVM: ["nu"] };
const OF_KERNEL = { linear: [], poly: ["degree", "gamma", "coef0"], rbf: ["gamma"], laplacian: ["gamma"], exponential: ["gamma"], sigmoid: ["gamma", "coef0"] };
const HARD_MARGIN = 1; // notches beyond the highest C at which it is infinite

const text = (value) => (value === Infinity ? "∞" : String(Number(value.toPrecision(3))));

export class Parameters {
  /** Sliders in `parent`. `changed` is called with the time of each change and whether a slider is still moved; `settled` when it
   *  no longer is. */
  constructor(parent, settled, changed) {
    this.values = Object.fromEntries(Object.entries(SLIDERS).map(([name, { value }]) => [name, value]));
    this.automatic = new Set(["gamma"]);
    this.rows = {};
    for (const [name, slider] of Object.entries(SLIDERS)) parent.append(this.#row(name, slider, settled, changed));
  }

  #row(name, slider, settled, changed) {
    const row = document.createElement("div");
    row.className = "parameter";
    row.innerHTML = `<label for="${name}" title="${slider.title}">${slider.label}</label>
      <input type="range" id="${name}" min="${slider.low}" max="${slider.high}" step="${slider.step}">
      <input type="text" inputmode="decimal" id="${name}-value" aria-label="${slider.title}, exact value" autocomplete="off">`;
    const [, range, field] = row.children;
    range.addEventListener("input", (event) => {
      const value = Number(range.value);
      this.automatic.delete(name);
      this.values[name] = !slider.log ? value : value > slider.high + 1e-9 ? Infinity : 10 ** value;
      this.#show(name);
      changed(event.timeStamp, true);
    });
    range.addEventListener("change", settled);
    field.addEventListener("change", (event) => {
      const typed = field.value.trim().replace("−", "-");
      this.automatic.delete(name);
      const isNumber = typed !== "" && !Number.isNaN(Number(typed));
      this.values[name] = /^(∞|inf(inity)?)$/i.test(typed) ? Infinity : isNumber ? Number(typed) : typed;
      this.#show(name, typed);
      changed(event.timeStamp, false);
    });
    this.rows[name] = { row, range, field };
    if (slider.automatic) {
      const check = document.createElement("label");
      check.className = "check";
      check.innerHTML = `<input type="checkbox" id="${name}-auto" checked> “${slider.automatic}”, from the spread`;
      row.append(check);
      const box = check.firstElementChild;
      this.rows[name].box = box;
      box.addEventListener("change", (event) => {
        this.automatic[box.checked ? "add" : "delete"](name);
        this.#show(name);
        changed(event.timeStamp, false);
      });
    }
    this.#show(name);
    return row;
  }

  #show(name, typed = null) {
    const { row, range, field, box } = this.rows[name], value = this.values[name];
    if (typeof value === "number") {
      field.value = typed ?? text(value);
      range.value = SLIDERS[name].log ? (value === Infinity ? range.max : Math.log10(Math.max(value, 1e-9))) : value;
    }
    row.classList.toggle("auto", this.automatic.has(name));
    if (box) box.checked = this.automatic.has(name);
  }

  /** Show the sliders that a machine with this kernel uses. */
  choose(machine, kernel) {
    const used = new Set([...OF_MACHINE[machine], ...OF_KERNEL[kernel]]);
    for (const [name, { row }] of Object.entries(this.rows)) row.hidden = !used.has(name);
    const { low, high, step } = SLIDERS.C;
    this.rows.C.range.max = machine === "SVC" ? high + HARD_MARGIN * step : high;
    this.rows.C.range.min = low;
    this.#show("C");
  }

  /** The value that "scale" stands for, as the machine has found it. */
  resolve(gamma) {
    if (!this.automatic.has("gamma") || gamma === null) return;
    this.values.gamma = gamma;
    this.#show("gamma");
  }

  /** The values for a request. JSON has no infinity, and text that is not a number is sent as it is: the server refuses it by name. */
  forRequest() {
    const entries = Object.entries(this.values).map(([name, value]) => [
      name, this.automatic.has(name) ? SLIDERS[name].automatic : value === Infinity ? "inf" : value,
    ]);
    return Object.fromEntries(entries);
  }
}
