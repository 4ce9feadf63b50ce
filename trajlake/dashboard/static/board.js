// Keeps a page fresh: asks every two seconds whether the board has changed, fetches the same page again, and puts new
// values into the cells that changed. Nothing is moved under the reader's eyes: a new order waits for "Apply".
"use strict";
(() => {
  const POLL_MS = 2000, STALE_MS = 5000, MOST_MS = 5000;
  const by = (id) => document.getElementById(id);
  const live = by("live"), pause = by("pause"), stale = by("stale"), fresh = by("fresh");
  let cursor = document.body.dataset.cursor, wait = POLL_MS, paused = false, timer = 0;
  let answeredAt = Date.now(), pending = null;
  // A page without parts that are kept fresh is of the moment at which it was made.
  const made = document.querySelector("[data-live]") ? "" : live.textContent;

  const clock = (date) => date.toISOString().slice(11, 19) + "Z";
  const ago = (date) => {
    const s = Math.max(0, Math.round((Date.now() - date) / 1000));
    for (const [unit, length] of [["d", 86400], ["h", 3600], ["min", 60]]) if (s >= 2 * length) return `${Math.floor(s / length)} ${unit} ago`;
    return `${s} s ago`;
  };

  function localTimes(root) {
    for (const time of root.querySelectorAll("time")) time.title = new Date(time.dateTime).toLocaleString() + " (local)";
  }

  function showFreshness() {
    const to = fresh.dataset.to;
    if (to) { const date = new Date(to); fresh.textContent = `data to ${clock(date)} (${ago(date)})`; }
    const silent = Date.now() - answeredAt;
    const isStale = !paused && !document.hidden && silent > STALE_MS;
    document.body.classList.toggle("stale", isStale);
    stale.hidden = !isStale;
    by("stale-since").textContent = clock(new Date(answeredAt));
    live.textContent = paused ? "paused" : isStale ? "stale" : made || `live, asked ${clock(new Date(answeredAt))}`;
  }

  function holdsSelection(node) {
    const chosen = document.getSelection();
    return chosen && !chosen.isCollapsed && chosen.containsNode(node, true);
  }

  function patchCells(old, now) {
    for (let i = 0; i < now.cells.length; i++) {
      const was = old.cells[i], is = now.cells[i];
      if (was && was.innerHTML !== is.innerHTML && !holdsSelection(was) && !was.contains(document.activeElement)) {
        const open = [...was.querySelectorAll("details")].map((d) => d.open);
        was.innerHTML = is.innerHTML;
        was.querySelectorAll("details").forEach((d, n) => { d.open = open[n] || false; });
      }
    }
  }

  function patchRows(old, now) {
    const rows = new Map([...old.rows].map((row) => [row.dataset.key, row]));
    const wanted = [...now.rows].map((row) => row.dataset.key);
    for (const row of now.rows) if (rows.has(row.dataset.key)) patchCells(rows.get(row.dataset.key), row);
    const have = [...rows.keys()];
    return wanted.filter((key, i) => have[i] !== key).length + Math.max(0, have.length - wanted.length);
  }

  function patch(page) {
    let moved = 0, at = 0;
    const places = [...document.querySelectorAll("[data-live]")], news = [...page.querySelectorAll("[data-live]")];
    if (places.length !== news.length) moved += 1;
    else for (const place of places) {
      const now = news[at++];
      if (place.dataset.live === "rows") moved += patchRows(place, now);
      else if (place.innerHTML !== now.innerHTML && !holdsSelection(place)) place.innerHTML = now.innerHTML;
    }
    fresh.dataset.to = page.getElementById("fresh").dataset.to;
    pending = moved ? page : null;
    by("order").hidden = !moved;
    by("order-text").textContent = `${moved} ${moved === 1 ? "row" : "rows"} changed order, came or went.`;
    localTimes(document);
  }

  function apply() {
    if (!pending) return;
    const scroll = window.scrollY;
    by("main").replaceWith(document.adoptNode(pending.getElementById("main")));
    pending = null;
    by("order").hidden = true;
    window.scrollTo(0, scroll);
    localTimes(document);
    reachScrolling();
  }

  async function ask() {
    try {
      const answer = await fetch(`/changes?since=${encodeURIComponent(cursor)}`, { signal: AbortSignal.timeout(4000) });
      if (!answer.ok) throw new Error(answer.status);
      const news = await answer.json();
      if (news.changed && document.querySelector("[data-live]")) {
        const page = await fetch(location.href, { signal: AbortSignal.timeout(10000) });
        if (!page.ok) throw new Error(page.status);
        patch(new DOMParser().parseFromString(await page.text(), "text/html"));
      }
      cursor = news.cursor;
      by("lag").textContent = news.lag;
      by("failure").hidden = !news.failure;
      if (news.failure) by("failure-text").textContent = news.failure;
      answeredAt = Date.now();
      wait = POLL_MS;
    } catch (error) {
      wait = Math.min(MOST_MS, wait * 1.5);
    }
    showFreshness();
    plan();
  }

  function plan() {
    clearTimeout(timer);
    if (!paused && !document.hidden) timer = setTimeout(ask, Date.now() - answeredAt > STALE_MS ? wait : POLL_MS);
  }

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Resume" : "Pause";
    if (!paused) ask();
    showFreshness();
  });
  by("apply").addEventListener("click", apply);
  document.addEventListener("visibilitychange", () => { if (!document.hidden && !paused) ask(); });
  for (const select of document.querySelectorAll("form.scope select")) select.addEventListener("change", () => select.form.submit());

  // Steps by key: j next, k previous, f the first that failed.
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
    const steps = [...document.querySelectorAll(".steps li")];
    if (event.key === "f" && by("failing")) { by("failing").click(); return; }
    if (!steps.length || (event.key !== "j" && event.key !== "k")) return;
    const here = steps.indexOf(document.querySelector(".steps li:target"));
    const next = here < 0 ? steps[0] : steps[here + (event.key === "j" ? 1 : -1)];
    if (next) location.hash = next.id;
  });

  // What can be scrolled sideways can be reached by key, and nothing else is in the way of one who tabs.
  function reachScrolling() {
    for (const box of document.querySelectorAll(".scroll")) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0; else box.removeAttribute("tabindex");
    }
  }

  localTimes(document);
  reachScrolling();
  addEventListener("resize", reachScrolling);
  setInterval(showFreshness, 1000);
  plan();
})();
