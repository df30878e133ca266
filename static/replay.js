/* The replay without a reload: the links of each step work by themselves, this only does it sooner. */
(() => {
  const all = (s, r = document) => [...r.querySelectorAll(s)], one = (s, r = document) => r.querySelector(s);
  const rows = () => all("tr[data-step]");
  let timer, chosen = new URLSearchParams(location.search).has("step");
  const now = () => +(one("[data-scrub]")?.value || 0);
  const go = (n, byHand = true) => {
    const steps = rows();
    if (!steps.length) return;
    n = Math.min(steps.length, Math.max(1, n));
    chosen = chosen || byHand;
    const row = steps[n - 1], shot = one("[data-stage-shot]");
    if (row.dataset.shot) shot.setAttribute("href", row.dataset.shot); else shot.removeAttribute("href");
    all("[data-mark]").forEach(m => m.dataset.mark === String(n) ? m.removeAttribute("visibility") : m.setAttribute("visibility", "hidden"));
    steps.forEach((x, i) => i === n - 1 ? x.setAttribute("aria-selected", "true") : x.removeAttribute("aria-selected"));
    all(".reel [data-go]").forEach((x, i) => {
      if (i === n - 1) { x.setAttribute("aria-current", "step"); const reel = x.parentElement; reel.scrollLeft = x.offsetLeft - reel.clientWidth / 2; } else x.removeAttribute("aria-current");
    });
    one("[data-scrub]").value = n; one("[data-now]").textContent = n; one(".deck [data-say]").textContent = row.dataset.words;
    const end = n === steps.length && row.dataset.words === "the end";
    one("[data-stage]").setAttribute("aria-label", end ? "Screen at the end" : `Screen before step ${n}: ${row.dataset.words}`);
    for (const [way, at] of [["prev", n > 1], ["next", n < steps.length]]) one(`.deck [data-go=${way}]`).setAttribute("aria-disabled", String(!at));
    if (byHand) { const url = new URL(location.href); url.searchParams.set("step", n); url.hash = ""; history.replaceState(null, "", url); }
  };
  const play = () => {
    const button = one("[data-play]"), on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", on); button.setAttribute("aria-label", on ? "Pause" : "Play");
    const use = one("use", button); use.setAttribute("href", use.getAttribute("href").replace(/#.*/, on ? "#pause" : "#play"));
    clearInterval(timer);
    if (!on) return;
    if (now() === rows().length) go(1);
    timer = setInterval(() => { if (now() >= rows().length) play(); else go(now() + 1); }, 900);
  };
  document.addEventListener("click", e => {
    const to = e.target.closest("[data-go]");
    if (to && !e.metaKey && !e.ctrlKey) { e.preventDefault(); go(to.dataset.go === "prev" ? now() - 1 : to.dataset.go === "next" ? now() + 1 : +to.dataset.go); return; }
    if (e.target.closest("[data-play]")) { play(); return; }
    const row = e.target.closest("tr[data-step]");
    if (row && !e.metaKey && !e.ctrlKey) { e.preventDefault(); go(+row.dataset.step); }
  });
  document.addEventListener("input", e => { if (e.target.matches("[data-scrub]")) go(+e.target.value); });
  document.addEventListener("keydown", e => {
    if (e.metaKey || e.ctrlKey || e.altKey || one("dialog[open]") || e.target.closest("input:not([type=range]), select, textarea")) return;
    if (e.key === "ArrowRight" || e.key === "ArrowLeft") { e.preventDefault(); go(now() + (e.key === "ArrowRight" ? 1 : -1)); }
    if (e.key === " " && one("[data-play]") && !e.target.closest("button, a, summary")) { e.preventDefault(); play(); }
  });
  const start = one(".reel [aria-current]");
  if (start) start.parentElement.scrollLeft = start.offsetLeft - start.parentElement.clientWidth / 2;
  /* while it plays, new steps are shown as they come, unless somebody has chosen one */
  let asked = now();
  document.addEventListener("deskyard:renewed", () => { const last = rows().length; if (!last) return; if (!chosen) go(last, false); else go(asked, false); });
  document.addEventListener("click", () => { asked = now(); }); document.addEventListener("keydown", () => { asked = now(); }); document.addEventListener("input", () => { asked = now(); });
})();
