// Draws a state over the one before. Rows stay the elements that they are, so that a screen reader hears only what is new.
import { at, make, set } from "./dom.js";
import { showExamine } from "./examine.js";
import { showForms } from "./forms.js";
import { happened } from "./happened.js";
import { t } from "./language.js";
import { gateway, money, record, told, verdict } from "./words.js";

const shown = 8;
const chips = 10;

export function show(state, before) {
  const fresh = !before || before.key !== state.key;
  set(at("number"), String(state.number));
  set(at("price"), money(state.cents));
  set(at("pay"), t("pay", { price: money(state.cents) }));
  set(at("key"), state.key);
  for (const name of ["without", "with"]) showSide(name, state[name], state.cents, fresh);
  set(at("happened"), happened(state));
  showExamine(state.examine);
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
  set(tally, t(`tally.${name}`, { what: brief }));
  showReceipts(section.querySelector(".receipts"), side.payments ?? [], fresh);
  section.querySelector(".curl").disabled = !side.presses?.some((press) => press.state !== "sent");
  showAnswers(section.querySelector(".answers"), side.presses ?? [], name === "with", fresh);
}

function showReceipts(list, payments, fresh) {
  if (fresh) list.replaceChildren();
  const have = list.querySelectorAll(".receipt").length;
  for (const payment of payments.slice(have, chips)) {
    const item = make("li", { className: "receipt" });
    item.textContent = `#${payment.id} ${money(payment.cents)}`;
    list.append(item);
  }
  let more = list.querySelector(".more");
  if (payments.length <= chips) return;
  if (!more) list.append(more = make("li", { className: "more" }));
  set(more, t("receipts.more", { n: payments.length - chips }));
}

function showAnswers(list, presses, isProtected, fresh) {
  if (fresh) list.replaceChildren();
  const rows = new Map([...list.querySelectorAll("[data-n]")].map((row) => [Number(row.dataset.n), row]));
  for (const press of presses.slice(-shown)) {
    let row = rows.get(press.n);
    rows.delete(press.n);
    if (!row) {
      row = make("li", { className: "answer" });
      row.dataset.n = press.n;
      list.prepend(row);
    }
    if (row.dataset.state === JSON.stringify(press)) continue;
    row.dataset.state = JSON.stringify(press);
    fill(row, press, isProtected);
  }
  for (const old of rows.values()) old.remove();
  list.dataset.more = presses.length > shown ? t("answers.before", { n: presses.length - shown }) : "";
}

function fill(row, press, isProtected) {
  const { tone, status, text, badge, code } = told(press, isProtected);
  const count = make("span", { className: "count" });
  const mark = make("span", { className: "status" });
  const words = make("span", { className: "words" });
  row.dataset.tone = tone;
  count.textContent = `${press.n}.`;
  mark.textContent = status;
  words.textContent = text;
  for (const extra of [badge, code]) {
    if (!extra) continue;
    words.append(" ", make("span", { className: extra === badge ? "badge" : "code", textContent: extra }));
  }
  row.replaceChildren(count, mark, words);
  if (press.state !== "sent") {
    set(at("said"), t("answers.said", { side: t(isProtected ? "with" : "without"), n: press.n, status, text }));
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
  at("in-console").hidden = !state.console;
  if (state.console) at("console").href = state.console;
  const [payment] = state.with.payments ?? [];
  set(at("doubt-found"), payment ? t("doubt.found", { id: payment.id }) : t("doubt.not-found"));
  set(at("list"), state.record.list);
  set(at("resolve"), state.record.resolve);
}
