/* Behaviour of every page. All that a page says is there without it: no inline handlers, no style attributes. */
const $ = (s, r = document) => r.querySelector(s), $$ = (s, r = document) => [...r.querySelectorAll(s)];
const typing = e => e.target.closest("input, select, textarea, [contenteditable]");

/* theme: the form posts and sets the cookie; here the same without a reload */
document.addEventListener("submit", e => {
  if (!e.target.matches("[data-theme-form]")) return;
  e.preventDefault();
  const root = document.documentElement, now = root.dataset.bsTheme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  root.dataset.bsTheme = now === "dark" ? "light" : "dark";
  document.cookie = `theme=${root.dataset.bsTheme}; path=/; max-age=31536000; samesite=lax`;
});

/* dialogs, copy buttons, drop-downs: by delegation, so swapped-in parts need no set-up */
document.addEventListener("click", async e => {
  $$("details.drop[open]").forEach(d => { if (!d.contains(e.target)) d.open = false; });
  const opener = e.target.closest("[data-open]");
  if (opener) { const box = $(opener.dataset.open); if (box) { e.preventDefault(); box.showModal(); } return; }
  if (e.target.closest("[data-close]")) { e.preventDefault(); e.target.closest("dialog").close(); return; }
  if (e.target.matches("dialog")) { e.target.close(); return; }
  const copy = e.target.closest("[data-copy-text], [data-copy]");
  if (!copy) return;
  const say = $("span", copy) || copy, was = say.textContent;
  const text = copy.dataset.copyText ?? $("pre[role=tabpanel]:not([hidden]), pre", copy.closest("section")).textContent;
  try { await navigator.clipboard.writeText(text); say.textContent = "Copied"; } catch { say.textContent = "Select and copy"; }
  setTimeout(() => { say.textContent = was; }, 1600);
});

/* keys: Ctrl K (on a Mac ⌘K) finds, / filters, J and K move along the rows of a list, arrows along what was found */
if (/Mac|iPhone|iPad/.test(navigator.platform)) $$("[data-hunt-key]").forEach(key => { key.textContent = "⌘K"; });
document.addEventListener("keydown", e => {
  const hunt = $("#hunt");
  if (hunt && (e.metaKey || e.ctrlKey) && e.key === "k") { e.preventDefault(); hunt.showModal(); return; }
  const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
  if (step && hunt?.open) {
    const stops = [$("input", hunt), ...$$("#hunt-list a")], at = stops.indexOf(document.activeElement);
    e.preventDefault(); stops[(at + step + stops.length) % stops.length].focus(); return;
  }
  if (e.key === "Escape") $$("details.drop[open]").forEach(d => { d.open = false; });
  if (typing(e) || e.metaKey || e.ctrlKey || e.altKey || (hunt && hunt.open)) return;
  if (e.key === "/") { const field = $("main input[type=search]"); if (field) { e.preventDefault(); field.focus(); } }
  if (e.key === "j" || e.key === "k") {
    const links = $$("main [data-rows] tbody tr").map(row => $("a", row)).filter(Boolean);
    if (!links.length) return;
    const at = links.indexOf(document.activeElement);
    links[Math.min(links.length - 1, Math.max(0, e.key === "j" ? at + 1 : at - 1))].focus();
  }
});

/* tabs inside a card (a copy of the request as JSON, curl, …); arrows move */
const pickTab = tab => {
  const list = tab.closest("[role=tablist]");
  $$("[role=tab]", list).forEach(x => {
    const on = x === tab;
    x.setAttribute("aria-selected", on);
    x.tabIndex = on ? 0 : -1;
    $("#" + x.getAttribute("aria-controls")).hidden = !on;
  });
};
document.addEventListener("click", e => { const tab = e.target.closest("[role=tab]"); if (tab) { e.preventDefault(); pickTab(tab); } });
document.addEventListener("keydown", e => {
  const tab = e.target.closest?.("[role=tab]"), way = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
  if (!tab || !way) return;
  const tabs = $$("[role=tab]", tab.closest("[role=tablist]")), next = tabs[(tabs.indexOf(tab) + way + tabs.length) % tabs.length];
  pickTab(next); next.focus();
});

/* filters: a change submits the form, which without scripts has a button */
document.addEventListener("change", e => { const form = e.target.closest("form[data-auto]"); if (form) form.requestSubmit(); });

/* a row of tabs that is wider than the screen begins where the current one is seen */
$$(".tabs").forEach(bar => { const now = $("[aria-current]", bar); if (now) bar.scrollLeft = now.offsetLeft + now.offsetWidth + 56 - bar.offsetLeft - bar.clientWidth; });

/* a form that comes back refused: the first field to mend has the focus */
$("main [aria-invalid=true]")?.focus();
