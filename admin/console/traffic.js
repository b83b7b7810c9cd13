// Routes and traffic of a gateway, asked for every five seconds.
import { every } from "./count.js";
import { h, minute, number, rate, seen, short, svg, t, when, word } from "./dom.js";
import { View, me } from "./view.js";

// kinds are what outcomes mean for those who run the service, in the order of the chart.
const kinds = { done: ["executed", "replayed", "duplicate", "unguarded", "issued"], doubt: ["doubt", "late", "in-doubt"] };
const kindOf = (outcome) => Object.keys(kinds).find((k) => kinds[k].includes(outcome)) ?? "refused";
const names = ["done", "refused", "doubt"];
const sum = (counts) => Object.values(counts).reduce((a, b) => a + b, 0);
const sums = (counts) => names.map((k) => Object.entries(counts).reduce((n, [o, c]) => n + (kindOf(o) === k ? c : 0), 0));

class Traffic extends View {
  name = "traffic";

  ask() {
    return me?.traffic ? this.call("/traffic") : null;
  }

  // show changes what is there: a person may be reading the table, or have the focus in it.
  show(flow) {
    if (!flow) return [h("h1", t("nav.traffic")), h("p.card", t("traffic.none"))];
    this.timer = setTimeout(() => this.load(), every);
    const before = this.last;
    this.last = { at: Date.now(), routes: new Map(flow.routes.map((r) => [r.name, sum(r.outcomes)])) };
    this.parts ??= { hour: h("div"), table: table(), routes: h("div") };
    const { hour, table: rows, routes } = this.parts;
    const minutes = byMinute(flow.history);
    hour.replaceChildren(minutes.length ? chart(minutes) : h("p.hint", t("traffic.soon")),
      h("ul.legend", names.map((k, i) => h("li", h(`span.key.${k}`, { "aria-hidden": "true" }), t(`kind.${k}`), " ", h("strong", number(minutes.reduce((n, m) => n + m.counts[i], 0)))))));
    rows.hidden = !minutes.length;
    fillTable(rows, minutes);
    routes.replaceChildren(flow.routes.length ? h("ul.rows", flow.routes.map((r) => this.route(r, before))) : h("p.hint", t("routes.none")));
    this.frame ??= [h("h1", t("nav.traffic")), h("p.lead", t("traffic.lead")), h("section.card", h("h2", t("traffic.hour")), hour, rows), h("section", h("h2", t("routes")), routes)];
    return this.frame;
  }

  route(r, before) {
    const all = sum(r.outcomes);
    const seconds = before && (this.last.at - before.at) / 1000;
    const now = before?.routes.has(r.name) ? Math.max(0, all - before.routes.get(r.name)) / seconds : null;
    return h("li", h("p.title", h("code", seen(r.name)), " ", now === null ? "" : h("span.chip.info", t("per-second", { n: rate(now) }))),
      h("ul.counts", Object.entries(r.outcomes).sort((a, b) => b[1] - a[1]).map(([o, n]) => h("li", h(`span.count.${kindOf(o)}`, h("strong", number(n)), " ", word("traffic", o))))));
  }
}

const ofMinute = 60000;
const shown = 60;

// byMinute returns the last hour, the oldest minute first, with the counts of names.
function byMinute(history) {
  if (!history.length) return [];
  const slot = (p) => Math.floor((Date.parse(p.at) - 1) / ofMinute); // at is the end of its span
  const first = slot(history.at(-1)) - shown + 1;
  const minutes = Array.from({ length: shown }, (_, i) => ({ at: (first + i) * ofMinute, counts: [0, 0, 0] }));
  for (const p of history) sums(p.outcomes).forEach((n, k) => { if (slot(p) >= first) minutes[slot(p) - first].counts[k] += n; });
  return minutes;
}

const total = (m) => m.counts.reduce((a, b) => a + b, 0);

// scale returns the steps of an axis for numbers up to most: at most five, in whole numbers that
// people count in.
function scale(most) {
  let step = 1;
  for (let size = 1; most > 5 * step; size *= 10) step = [1, 2, 5, 10].map((n) => n * size).find((n) => most <= 5 * n) ?? step;
  return Array.from({ length: Math.max(1, Math.ceil(most / step)) + 1 }, (_, i) => i * step);
}

const high = 160; // pixels, as in console.css

// chart draws a bar for each minute, with the scale of the numbers at its left and of the time under
// it. Only the bars are stretched: letters would be too.
function chart(minutes) {
  const steps = scale(Math.max(...minutes.map(total)));
  const top = steps.at(-1);
  const bars = minutes.flatMap((m, i) => {
    let y = 100;
    return m.counts.map((n, k) => {
      const height = n ? Math.max(1, n / top * 100) : 0;
      y -= height;
      return n > 0 && svg("rect", { class: names[k], x: i * 10 + 1, y, width: 8, height });
    });
  });
  const most = minutes.reduce((a, b) => total(b) > total(a) ? b : a);
  const label = t("chart", { n: number(total(most)), at: minute(most.at), from: when(minutes[0].at), to: when(minutes.at(-1).at + ofMinute) });
  // those at the edges would be cut off
  const quarters = minutes.map((m, i) => [m, i]).filter(([m, i]) => new Date(m.at).getMinutes() % 15 === 0 && i > 3 && i < 57);
  return h("figure.chart", h("p.hint.unit", t("chart.unit")),
    svg("svg", { class: "numbers", "aria-hidden": "true" }, steps.map((n) => svg("text", { x: "100%", y: high * (1 - n / top), "text-anchor": "end" }, short(n)))),
    svg("svg", { class: "plot", viewBox: "0 0 600 100", role: "img", "aria-label": label, preserveAspectRatio: "none" },
      steps.map((n) => svg("line", { x1: 0, x2: 600, y1: 100 - n / top * 100, y2: 100 - n / top * 100 })), bars),
    svg("svg", { class: "times", "aria-hidden": "true" }, quarters.map(([m, i]) => svg("text", { x: `${(i * 10 + 5) / 6}%`, y: 16, "text-anchor": "middle" }, minute(m.at)))),
    h("figcaption.hint", t("chart.time"), " ", label));
}

// table has the numbers of the chart for those who do not see it.
function table() {
  const head = ["chart.minute", ...names.map((k) => `kind.${k}`)].map((k) => h("th", { scope: "col" }, t(k)));
  return h("details", h("summary", t("chart.table")), h("table", h("caption.hint", t("chart.newest")), h("thead", h("tr", head)),
    h("tbody", Array.from({ length: shown }, () => h("tr", h("th", { scope: "row" }), names.map(() => h("td")))))));
}

// fillTable changes only texts, and only those that are others: a screen reader keeps its place.
function fillTable(box, minutes) {
  const texts = minutes.toReversed().flatMap((m) => [minute(m.at), ...m.counts.map(number)]);
  box.querySelectorAll("tbody :is(th, td)").forEach((cell, i) => { if (cell.textContent !== texts[i]) cell.textContent = texts[i] ?? ""; });
}

customElements.define("rs-traffic", Traffic);
