// The six forms: real pages in frames, clicked as a person clicks. What they did is told by the shop's own table.
import { at, make, set } from "./dom.js";
import { count, lang, t } from "./language.js";

const soon = (ms) => new Promise((go) => setTimeout(go, ms));
const orders = (n) => count("forms.orders", n);
const address = (way) => `forms/${way}?lang=${lang}`;

function verdict(n, wanted) {
  if (n === 0) return ["none", t("forms.none")];
  const values = { orders: orders(n), pages: count("forms.pages", wanted) };
  return n <= wanted ? ["good", t("forms.good", values)] : ["bad", t("forms.bad", values)];
}

function happened(forms) {
  const copies = forms.filter((form) => form.replay).reduce((sum, form) => sum + form.replay.orders, 0);
  if (forms.some((form) => form.replay)) return t("forms.happened.copies", { orders: orders(copies) });
  if (!forms.some((form) => form.orders)) return t("forms.happened.none");
  const n = forms.filter((form) => form.orders > form.wanted).length;
  return n ? t("forms.happened.bad", { n }) : t("forms.happened.good");
}

export function showForms(forms) {
  if (!forms) return;
  const list = at("six");
  if (!list.children.length) list.append(...forms.map(card));
  forms.forEach((form, i) => {
    const tally = list.children[i].querySelector(".count");
    const [tone, text] = verdict(form.orders, form.wanted);
    tally.dataset.tone = tone;
    set(tally, text);
  });
  set(at("forms-happened"), happened(forms));
  at("attack").disabled = !forms.some((form) => form.captured);
  showCopies(forms.filter((form) => form.replay));
}

function card(form) {
  const title = t(`form.${form.way}`);
  return make("li", { id: `form-${form.way}` },
    make("h3", { textContent: title }),
    make("p", { className: "count" }),
    make("p", { className: "hint", textContent: t(`form.${form.way}.hint`) }),
    make("iframe", { src: address(form.way), title: t("form.frame", { title }) }));
}

function showCopies(forms) {
  at("copies").hidden = !forms.length;
  const state = JSON.stringify(forms);
  const body = at("copies").tBodies[0];
  if (body.dataset.state === state) return;
  body.dataset.state = state;
  body.replaceChildren(...forms.map(({ way, replay, orders: all }) => {
    const made = make("td", { textContent: replay.orders ? t("attack.more", { n: replay.orders }) : t("attack.no-more") });
    made.dataset.tone = replay.orders ? "bad" : "good";
    const told = replay.replayed === replay.sent ? t("attack.replayed", { n: replay.sent }) : t("attack.new", { n: replay.sent - replay.refused });
    const row = make("tr", {}, make("th", { scope: "row", textContent: t(`form.${way}`) }), make("td", { textContent: told }), made, make("td", { textContent: String(all) }));
    row.dataset.way = way;
    return row;
  }));
  if (!forms.length) return;
  const all = forms.map(({ way, replay }) => t("attack.said.one", { form: t(`form.${way}`), orders: orders(replay.orders) })).join(" ");
  set(at("said"), t("attack.said", { all }));
}

const frames = () => [...at("six").querySelectorAll("iframe")];
const ready = (frame) => frame.contentDocument?.readyState === "complete" && button(frame); // its script has run
const button = (frame) => frame.contentDocument?.querySelector("button");

// whole waits until every frame shows a form.
async function whole() {
  for (const frame of frames()) {
    if (ready(frame)) continue;
    const loaded = new Promise((go) => frame.addEventListener("load", go, { once: true }));
    frame.contentWindow.location.replace(address(frame.closest("li").id.slice("form-".length)));
    await loaded;
  }
}

async function twice() {
  await whole();
  for (const frame of frames()) button(frame)?.click();
  await soon(200); // as an impatient person does; the shop takes longer
  for (const frame of frames()) button(frame)?.click(); // nothing, where it is disabled
}

export function wireForms(send) {
  at("twice").addEventListener("click", twice);
  at("attack").addEventListener("click", () => send("forms/attack"));
  at("forms-new").addEventListener("click", async () => {
    await send("forms/new");
    for (const frame of frames()) frame.contentWindow.location.replace(address(frame.closest("li").id.slice("form-".length)));
  });
}
