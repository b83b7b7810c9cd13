// What the shop, the gateway and the answers say, for a reader who knows nothing of retries.
import { has, t } from "./language.js";

export const money = (cents) => `$${(cents / 100).toFixed(2)}`;

export function verdict(payments, cents) {
  if (payments === null) return { tone: "none", big: t("verdict.unknown"), small: "", brief: t("tally.unknown") };
  const n = payments.length;
  const total = payments.reduce((sum, payment) => sum + payment.cents, 0);
  const sum = t("sum", { sum: money(total) });
  if (n === 0) return { tone: "none", big: t("verdict.none"), small: sum, brief: t("tally.none") };
  if (n === 1) return { tone: "good", big: t("verdict.once"), small: sum, brief: t("tally.once") };
  const much = t("sum.much", { sum: money(total), much: money(total - cents) });
  return { tone: "bad", big: t("verdict.many", { n }), small: much, brief: t("tally.many", { n }) };
}

// told describes the answer to a press, and its tone.
export function told(press, isProtected) {
  switch (press.state) {
    case "sent":
      return { tone: "none", status: "…", text: t("told.sent") };
    case "lost":
      return { tone: "warn", status: t("status.lost"), text: t("told.lost") };
    case "away":
      return { tone: "warn", status: t("status.away"), text: isProtected ? t("told.away") : t("told.away-shop") };
    case "broken":
      return { tone: "warn", status: t("status.broken"), text: t("told.broken") };
  }
  const badge = press.replayed ? t("replayed") : "";
  if (press.payment) {
    const text = press.replayed ? t("told.replayed", { id: press.payment }) : t("told.paid", { id: press.payment });
    return { tone: "good", status: press.status, text, badge };
  }
  if (ofShop(press)) {
    return { tone: "warn", status: press.status, text: press.replayed ? t("told.error-replayed") : t("told.error"), badge };
  }
  const text = has(`code.${press.code}`) ? t(`code.${press.code}`) : t("told.other");
  return { tone: "warn", status: press.status, text: press.retry_after ? t("told.again", { text, n: press.retry_after }) : text, code: press.code };
}

// ofShop reports whether a press got an error of the shop: those of the gateway have a code.
export const ofShop = (press) => press.status >= 500 && !press.code;

export const gateway = (state) => (state.up ? t("gateway.up", { pid: state.pid }) : t("gateway.down"));

export const record = (state) => t(`record.${state.state || "none"}`, { n: state.lease_s });
