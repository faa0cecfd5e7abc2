// Runs in every page before its own scripts: holds each form back until Holdfast sends it.
(() => {
  const { entries } = FormData.prototype;
  const LENGTH_MAX = 500;
  let held = null; // the last form that was held back: {id, form, submitter, shown}
  let sending = null;
  let count = 0;
  const approved = new WeakMap(); // what was sent of each form: its page can send that itself

  const shown = (form, submitter) => {
    const fields = [];
    for (const [name, value] of entries.call(new FormData(form, submitter ?? undefined))) {
      const isHidden = [...form.elements].some((each) => each.name === name && each.type === "password");
      const text = typeof value === "string" ? value : `file ${value.name}`;
      fields.push(isHidden ? `${name} = (a password of ${text.length} characters)` : `${name} = ${text}`);
    }
    const action = submitter?.getAttribute("formaction") ?? form.getAttribute("action") ?? "";
    const method = submitter?.getAttribute("formmethod") ?? form.getAttribute("method") ?? "get";
    return { to: new URL(action, document.baseURI).href, method: method.toUpperCase(), fields };
  };
  const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

  addEventListener(
    "submit",
    (event) => {
      const form = event.target;
      if (!(form instanceof HTMLFormElement)) return;
      const now = shown(form, event.submitter);
      if (sending !== null && sending.form === form && same(now, sending.shown)) {
        approved.set(form, sending.shown);
        sending = null;
        return;
      }
      event.preventDefault();
      event.stopImmediatePropagation();
      count += 1;
      held = { id: `${count}`, form, submitter: event.submitter, shown: now };
    },
    true,
  );
  const { submit: submitNow } = HTMLFormElement.prototype;
  // A script's own call causes no event.
  HTMLFormElement.prototype.submit = function submit() {
    if (approved.has(this) && same(approved.get(this), shown(this, null))) submitNow.call(this);
    else this.requestSubmit();
  };

  const take = () => {
    if (held === null) return null;
    const { id, shown: now } = held;
    const fields = now.fields.map((each) => (each.length > LENGTH_MAX ? `${each.slice(0, LENGTH_MAX)}…` : each));
    return { id, ...now, fields };
  };
  const send = (id, expected) => {
    if (held === null || held.id !== id || !same(take(), expected)) return "changed";
    const { form, submitter, shown: before } = held;
    if (!form.isConnected || !same(shown(form, submitter), before)) return "changed";
    sending = { form, shown: before };
    held = null;
    form.requestSubmit(submitter ?? undefined);
    const wasSent = sending === null;
    sending = null;
    return wasSent ? "sent" : "invalid";
  };
  Object.defineProperty(window, "holdfastForms", { value: Object.freeze({ take, send }) });
})();
