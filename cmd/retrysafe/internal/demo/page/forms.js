// The six forms: real pages in frames, clicked as a person clicks. What they did is told by the shop's own table.
const at = (id) => document.getElementById(id);
const soon = (ms) => new Promise((go) => setTimeout(go, ms));

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function make(tag, fields, ...children) {
  const element = Object.assign(document.createElement(tag), fields);
  element.append(...children);
  return element;
}

const orders = (n) => (n === 1 ? "1 order" : `${n} orders`);

function verdict(n, wanted) {
  if (n === 0) return ["none", "No order yet"];
  const pages = wanted === 1 ? "one form" : `${wanted} forms`;
  return n <= wanted ? ["good", `✓ ${orders(n)} by ${pages}`] : ["bad", `✗ ${orders(n)} by ${pages}`];
}

export function showForms(forms) {
  if (!forms) return;
  const list = at("six");
  if (!list.children.length) list.append(...forms.map(card));
  forms.forEach((form, i) => {
    const count = list.children[i].querySelector(".count");
    const [tone, text] = verdict(form.orders, form.wanted);
    count.dataset.tone = tone;
    set(count, text);
  });
  at("attack").disabled = !forms.some((form) => form.captured);
  showCopies(forms.filter((form) => form.replay));
}

function card(form) {
  return make("li", { id: `form-${form.way}` },
    make("h3", { textContent: form.title }),
    make("p", { className: "count" }),
    make("p", { className: "hint", textContent: form.hint }),
    make("iframe", { src: `forms/${form.way}`, title: `${form.title}: order a teapot` }));
}

function showCopies(forms) {
  at("copies").hidden = !forms.length;
  const state = JSON.stringify(forms);
  const body = at("copies").tBodies[0];
  if (body.dataset.state === state) return;
  body.dataset.state = state;
  body.replaceChildren(...forms.map(({ way, title, replay, orders: all }) => {
    const made = make("td", { textContent: replay.orders ? `${replay.orders} more` : "none" });
    made.dataset.tone = replay.orders ? "bad" : "good";
    const told = replay.replayed === replay.sent ? `${replay.sent}× the first answer again` : `${replay.sent - replay.refused}× “thank you”, as if new`;
    const row = make("tr", {}, make("th", { scope: "row", textContent: title }), make("td", { textContent: told }), made, make("td", { textContent: String(all) }));
    row.dataset.way = way;
    return row;
  }));
  if (forms.length) set(at("said"), `Copies sent. ${forms.map(({ title, replay }) => `${title}: ${orders(replay.orders)} more`).join(". ")}`);
}

const frames = () => [...at("six").querySelectorAll("iframe")];
const ready = (frame) => frame.contentDocument?.readyState === "complete" && button(frame); // its script has run
const button = (frame) => frame.contentDocument?.querySelector("button");

// whole waits until every frame shows a form.
async function whole() {
  for (const frame of frames()) {
    if (ready(frame)) continue;
    const loaded = new Promise((go) => frame.addEventListener("load", go, { once: true }));
    frame.contentWindow.location.replace(`forms/${frame.closest("li").id.slice("form-".length)}`);
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
    for (const frame of frames()) frame.contentWindow.location.replace(`forms/${frame.closest("li").id.slice("form-".length)}`);
  });
}
