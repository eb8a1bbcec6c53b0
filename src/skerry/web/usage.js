// The panel of what models used, and what it cost.

import { make, setText } from "./dom.js";

const DAYS = 31;
const count = new Intl.NumberFormat();
const money = new Intl.NumberFormat("en", { style: "currency", currency: "USD", maximumFractionDigits: 4 });

/** The dialog. `page` has `gateway`, the one there is now. */
export class Panel {
  #dialog = make("dialog", { className: "setup" });
  #rows = make("tbody");
  #models = make("tbody");
  #told = make("p", { className: "help", role: "status" });

  constructor(page) {
    this.page = page;
    const close = make("button", { className: "primary" }, "Close");
    this.#dialog.append(
      make(
        "form",
        { method: "dialog" },
        make("h2", {}, "Usage"),
        table("When", this.#rows),
        make("h3", {}, "This month, by model"),
        table("Model", this.#models),
        this.#told,
        make("div", { className: "row end" }, close),
      ),
    );
    this.#dialog.ariaLabel = "Usage";
    document.body.append(this.#dialog);
  }

  /** Open it, with what is counted up to now. */
  async open() {
    this.#dialog.showModal();
    setText(this.#told, "Counting");
    try {
      await this.#read();
    } catch (error) {
      setText(this.#told, error.message);
    }
  }

  async #read() {
    const { gateway } = this.page;
    const { daily } = await gateway.request("usage.cost", { days: DAYS });
    const today = daily.at(-1).date;
    const month = daily.filter(({ date }) => date.slice(0, 7) === today.slice(0, 7));
    this.#rows.replaceChildren(
      row("Today", daily.slice(-1)),
      row("Last 7 days", daily.slice(-7)),
      row("This month", month),
    );
    const missing = month.reduce((sum, one) => sum + one.missingCostEntries, 0);
    const dates = { startDate: month[0].date, endDate: today };
    const { rows, budgets = [] } = await gateway.request("usage.report", { ...dates, by: "model" });
    this.#models.replaceChildren(...rows.map((one) => row(one.name, [one])));
    const told = [
      rows.length === 0 && "No model was called this month.",
      missing > 0 && `The price of ${missing === 1 ? "1 call" : `${missing} calls`} is unknown and not included.`,
      ...budgets.map(({ budget, message }) => message && `Budget ${budget}: ${message}`),
    ];
    setText(this.#told, told.filter(Boolean).join(" "));
  }
}

function table(first, body) {
  const names = [first, "In", "Out", "Cost"];
  const head = names.map((name) => make("th", { scope: "col" }, name));
  return make("table", { className: "sums" }, make("thead", {}, make("tr", {}, ...head)), body);
}

/** Return a row that adds up what is given. */
function row(name, parts) {
  const sum = (key) => parts.reduce((total, one) => total + (one[key] ?? 0), 0);
  const [cost, missing] = [sum("totalCost"), sum("missingCostEntries") + sum("unpriced")];
  const known = `${money.format(cost)}${missing ? " and more" : ""}`;
  const cells = [
    count.format(sum("input") + sum("cacheRead") + sum("cacheWrite")),
    count.format(sum("output")),
    missing && !cost ? "unknown" : known,
  ];
  return make("tr", {}, make("th", { scope: "row" }, name), ...cells.map((cell) => make("td", {}, cell)));
}
