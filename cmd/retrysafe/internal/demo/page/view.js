// Draws a state over the one before. Rows stay the elements that they are, so that a screen reader hears only what is new.
import { showForms } from "./forms.js";
import { gateway, money, record, told, verdict } from "./words.js";

const at = (id) => document.getElementById(id);
const shown = 8;
const chips = 10;

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function make(tag, className) {
  const element = document.createElement(tag);
  element.className = className;
  return element;
}

export function show(state, before) {
  const fresh = !before || before.key !== state.key;
  set(at("number"), String(state.number));
  set(at("price"), money(state.cents));
  set(at("pay"), `Pay ${money(state.cents)}`);
  set(at("key"), state.key);
  for (const name of ["without", "with"]) showSide(name, state[name], state.cents, fresh);
  showGateway(state);
  showDoubt(state);
  showForms(state.forms);
  document.body.dataset.ready = "yes";
}

function showSide(name, side, cents, fresh) {
  const section = at(name);
  const { tone, big, small, brief } = verdict(side.payments, cents);
  section.dataset.tone = tone;
  set(section.querySelector(".verdict strong"), big);
  set(section.querySelector(".verdict span"), small);
  const tally = at(`tally-${name}`);
  tally.dataset.tone = tone;
  set(tally, `${name === "with" ? "With" : "Without"} ${brief}`);
  showReceipts(section.querySelector(".receipts"), side.payments ?? [], fresh);
  showAnswers(section.querySelector(".answers"), side.presses ?? [], name === "with", fresh);
}

function showReceipts(list, payments, fresh) {
  if (fresh) list.replaceChildren();
  const have = list.querySelectorAll(".receipt").length;
  for (const payment of payments.slice(have, chips)) {
    const item = make("li", "receipt");
    item.textContent = `#${payment.id} ${money(payment.cents)}`;
    list.append(item);
  }
  let more = list.querySelector(".more");
  if (payments.length <= chips) return;
  if (!more) list.append(more = make("li", "more"));
  set(more, `and ${payments.length - chips} more`);
}

function showAnswers(list, presses, isProtected, fresh) {
  if (fresh) list.replaceChildren();
  const rows = new Map([...list.querySelectorAll("[data-n]")].map((row) => [Number(row.dataset.n), row]));
  for (const press of presses.slice(-shown)) {
    let row = rows.get(press.n);
    rows.delete(press.n);
    if (!row) {
      row = make("li", "answer");
      row.dataset.n = press.n;
      list.prepend(row);
    }
    if (row.dataset.state === JSON.stringify(press)) continue;
    row.dataset.state = JSON.stringify(press);
    fill(row, press, isProtected);
  }
  for (const old of rows.values()) old.remove();
  list.dataset.more = presses.length > shown ? `and ${presses.length - shown} before` : "";
}

function fill(row, press, isProtected) {
  const { tone, status, text, badge, code } = told(press, isProtected);
  const count = make("span", "count");
  const mark = make("span", "status");
  const words = make("span", "words");
  row.dataset.tone = tone;
  count.textContent = `${press.n}.`;
  mark.textContent = status;
  words.textContent = text;
  for (const extra of [badge, code]) {
    if (!extra) continue;
    const tag = make("span", extra === badge ? "badge" : "code");
    tag.textContent = extra;
    words.append(" ", tag);
  }
  row.replaceChildren(count, mark, words);
  if (press.state !== "sent") {
    set(at("said"), `${isProtected ? "With retrysafe" : "Without protection"}, press ${press.n}: ${status}. ${text}`);
  }
}

function showGateway(state) {
  const { up } = state.gateway;
  at("gateway").dataset.up = up ? "yes" : "no";
  set(at("gateway-says"), gateway(state.gateway));
  moveFocus(at("kill"), at("start"), up);
  at("killed").disabled = !up;
  set(at("record"), record(state.record));
}

// moveFocus swaps two buttons, and does not lose the one who has just pressed one of them.
function moveFocus(first, second, isFirst) {
  const [here, gone] = isFirst ? [first, second] : [second, first];
  const held = document.activeElement === gone;
  here.hidden = false;
  gone.hidden = true;
  if (held) here.focus();
}

function showDoubt(state) {
  const doubt = state.record.state === "in-doubt";
  if (doubt && at("doubt").hidden) set(at("said"), at("doubt-title").textContent);
  at("doubt").hidden = !doubt;
  if (!doubt) return;
  const [payment] = state.with.payments ?? [];
  set(at("doubt-found"), payment ? `finds payment ${payment.id} there,` : "finds no payment there,");
  set(at("list"), state.record.list);
  set(at("resolve"), state.record.resolve);
}
