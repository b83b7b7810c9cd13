// How many doubts wait for a person: in the title of the page and in the navigation, in every view
// and also while the tab is in the background.
import { call } from "./api.js";
import { h, number, t } from "./dom.js";

export const every = 5000;

// All are counted in the view. This is asked all the time, so it counts no more than so many.
const most = 1000;
const patience = 10000;

let title = "";
// What cannot be read is unknown. It is not 0: a person would go home.
let known = null;
let timer = null;
let asked = 0;

const badges = [];
// news says to a screen reader that the count has changed.
export const news = h("p.unseen", { role: "status" });

// badge makes an element that shows the count beside the name of the view.
export function badge() {
  const one = h("span.badge");
  badges.push(one);
  draw(one);
  return one;
}

const figure = () => known ? `${number(known.total)}${known.more ? "+" : ""}` : "?";
const spoken = () => known ? t("count", { n: known.more ? t("doubts.at-least", { n: number(known.total) }) : number(known.total) }) : t("count.unknown");

function draw(one) {
  one.className = `badge ${known?.total === 0 ? "none" : "some"}`;
  one.replaceChildren(h("span", { "aria-hidden": "true" }, figure()), h("span.unseen", spoken()));
}

// entitle names the page.
export function entitle(text) {
  title = text;
  document.title = `${known?.total === 0 ? "" : `(${figure()}) `}${title} · retrysafe`;
}

function show(now) {
  const before = known && figure();
  known = Number.isInteger(now?.total) ? now : null;
  badges.forEach(draw);
  entitle(title);
  if (known && before !== null && before !== figure()) news.textContent = spoken();
  document.dispatchEvent(new CustomEvent("rs-doubts", { detail: known }));
}

// countDoubts counts now and from then on. It ends when the server does not know the caller: each
// call would be a line in its log.
export async function countDoubts() {
  clearTimeout(timer);
  timer = null;
  const mine = ++asked;
  let now = null;
  let refused = false;
  try {
    now = await call("/in-doubt", { query: { limit: most }, signal: AbortSignal.timeout(patience) });
  } catch (e) {
    refused = ["unauthenticated", "forbidden"].includes(e.code);
  }
  if (mine !== asked) return;
  if (!refused) timer = setTimeout(countDoubts, every);
  show(now);
}

// Browsers slow down the clocks of tabs in the background.
document.addEventListener("visibilitychange", () => { if (!document.hidden && timer) countDoubts(); });
