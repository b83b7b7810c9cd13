// What just happened, and why, in a sentence or two: after each press, kill and start.
import { count, t } from "./language.js";
import { ofShop } from "./words.js";

export function happened(state) {
  const straight = state.without.presses ?? [];
  const guarded = state.with.presses ?? [];
  const last = guarded.at(-1);
  if (!state.gateway.up && last?.state !== "sent") return down(state, last);
  if (!last) return t(state.number > 1 ? "happened.new" : "happened.start");
  if (state.record.state === "in-doubt") return t("happened.doubt");
  if ([...straight, ...guarded].some((press) => press.state === "sent")) return t("happened.sent");
  const values = { n: guarded.length, status: last.status, charges: charges(state) };
  return t(`happened.${reason(state, guarded, last)}`, values);
}

const charges = (state) => count("charges", state.without.payments?.length ?? 0);

function down(state, last) {
  if (last?.state === "broken") return t(state.with.payments?.length ? "happened.killed" : "happened.down");
  if (last?.state === "away") return t("happened.away", { charges: charges(state) });
  return t("happened.down");
}

// reason returns which of the texts explains the last presses.
function reason(state, guarded, last) {
  const round = guarded.filter((press) => press.round === last.round);
  const before = guarded.filter((press) => press.round < last.round);
  if (round.length > 1 && before.length === 0) return round.some((press) => press.code) ? "ten-busy" : "ten";
  if (last.state === "lost") return before.length ? "lost-too" : "lost";
  if (last.state === "broken") return "broken";
  if (ofShop(last)) return failed(state, last);
  if (last.code) return refused(last);
  if (!last.replayed) return guarded.length === 1 ? "once" : ran(before.at(-1));
  return retried(before);
}

function failed(state, last) {
  const acted = state.with.payments?.length > 0;
  if (last.replayed) return acted ? "failed-retry" : "failed-none-retry";
  return acted ? "failed" : "failed-none";
}

function refused(last) {
  switch (last.code) {
    case "in-progress":
      return "busy";
    case "already-done":
      return "done";
  }
  return "refused";
}

// ran explains a press that ran although it is not the first.
const ran = (before) => (before?.state === "away" ? "back-ran" : "straight");

// retried explains a press that got the stored answer.
function retried(before) {
  switch (before.at(-1)?.state) {
    case "lost":
      return "lost-retry";
    case "away":
      return "back";
    case "broken":
      return "resolved";
  }
  return before.at(-1)?.code === "outcome-unknown" ? "resolved" : "again";
}
