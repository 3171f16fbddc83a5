"use strict";
// Two things, and both can be done without: a table is filtered as somebody types, and a page about a run that goes on
// is brought up to date. What comes from the server is parsed as a document in which nothing runs.
(() => {
  for (const input of document.querySelectorAll("input[data-filter]")) {
    const body = document.getElementById(input.dataset.filter);
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of body.rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
    });
  }

  const EVERY_MILLISECONDS = 2000;
  const busy = (part) => part.contains(document.activeElement) && document.activeElement !== document.body;
  const selected = () => !(window.getSelection() || { isCollapsed: true }).isCollapsed;

  function renew(fresh) {
    for (const part of document.querySelectorAll("[data-part]")) {
      const other = fresh.querySelector(`[data-part="${part.dataset.part}"]`);
      if (!other || other.innerHTML === part.dataset.seen || busy(part)) continue;
      const first = part.dataset.seen === undefined && other.innerHTML === part.innerHTML;
      part.dataset.seen = other.innerHTML;
      if (first) continue;
      const open = new Set([...part.querySelectorAll("details[open][id]")].map((one) => one.id));
      part.replaceChildren(...[...other.childNodes].map((node) => document.importNode(node, true)));
      for (const id of open) {
        const one = document.getElementById(id);
        if (one) one.open = true;
      }
      part.classList.remove("fresh");
      void part.offsetWidth;
      part.classList.add("fresh");
    }
    document.body.toggleAttribute("data-live", fresh.body.hasAttribute("data-live"));
  }

  async function follow() {
    if (!document.body.hasAttribute("data-live")) return;
    if (!document.hidden && !selected()) {
      try {
        const answer = await fetch(location.href, { headers: { accept: "text/html" } });
        if (answer.ok) renew(new DOMParser().parseFromString(await answer.text(), "text/html"));
      } catch (error) {
        // The viewer was ended, or is not there for a moment: what is shown stays.
      }
    }
    setTimeout(follow, EVERY_MILLISECONDS);
  }
  setTimeout(follow, EVERY_MILLISECONDS);
})();
