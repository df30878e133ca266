/* Live pages. The socket says how far the run's log has come, numbers only; the page then fetches itself again and
   takes over what differs, so focus, selection and scroll stay. Without this script a reload shows the same. */
const here = () => document.querySelector("[data-live], [data-poll]");
const label = (word, on) => {
  said = [word, on];
  document.querySelectorAll("[data-live-label]").forEach(x => {
    x.classList.toggle("still", !on);
    x.querySelector("[data-live-word]").textContent = word;
  });
};
const count = n => Number(n).toLocaleString("en");
let announced = 0, said = null, busy = false, again = false, socket, wait = 500;

/* one tree takes over from another, node by node; what has an id is found again behind what is new or gone */
const morph = (now, next) => {
  if (now.isEqualNode(next)) return;
  if (now.nodeType !== next.nodeType || now.nodeName !== next.nodeName || now.id !== next.id) { now.replaceWith(document.importNode(next, true)); return; }
  if (now.nodeType !== 1) { now.nodeValue = next.nodeValue; return; }
  if (now.hasAttribute("data-keep") && next.hasAttribute("data-keep")) return;
  const holds = now === document.activeElement && now.matches("input, select, textarea");
  for (const { name } of [...now.attributes]) if (!next.hasAttribute(name) && name !== "open") now.removeAttribute(name);
  for (const { name, value } of [...next.attributes]) if (now.getAttribute(name) !== value && !(holds && name === "value")) now.setAttribute(name, value);
  if (holds) return;
  let at = now.firstChild;
  for (const child of next.childNodes) {
    const own = child.id && [...now.children].find(x => x.id === child.id);
    // Blanks between elements differ from page to page and shift nothing.
    if (child.nodeType === 1) while (at && at.nodeType === 3 && !at.data.trim()) at = drop(at);
    if (own && at && at.compareDocumentPosition(own) & Node.DOCUMENT_POSITION_FOLLOWING) while (at !== own) at = drop(at);
    if (!at || (child.nodeType === 3 && at.nodeType !== 3) || (at.id && at.id !== child.id && [...next.children].some(x => x.id === at.id))) { now.insertBefore(document.importNode(child, true), at); continue; }
    const after = at.nextSibling;
    morph(at, child);
    at = after;
  }
  while (at) at = drop(at);
};
const drop = x => { const after = x.nextSibling; x.remove(); return after; };

const renew = async () => {
  if (busy) { again = true; return; }
  busy = true; again = false;
  try {
    const reply = await fetch(location.href, { headers: { "HX-Request": "true" }, credentials: "same-origin" });
    if (reply.redirected || !reply.ok) throw new Error(reply.status);
    const next = new DOMParser().parseFromString(await reply.text(), "text/html");
    document.title = next.title || document.title;
    const main = document.getElementById("main"), fresh = next.getElementById("main");
    // What was refused stays on the page with what was typed, until it is sent again.
    if (main && fresh && !document.querySelector("main select:focus, main .field.wrong")) morph(main, fresh);
    const purse = document.getElementById("purse"), purseNext = next.getElementById("purse");
    if (purse && purseNext) morph(purse, purseNext);
    document.querySelectorAll("dialog.ask[id^=ask-]").forEach(ask => {
      const askNext = next.getElementById(ask.id);
      if (!askNext) ask.remove();
      else if (!ask.open) morph(ask, askNext);
      else ask.querySelectorAll("[data-fresh]").forEach((part, i) => { const to = askNext.querySelectorAll("[data-fresh]")[i]; if (to) morph(part, to); });
    });
    const drawn = +(document.querySelector("[data-seq]")?.dataset.seq || 0);
    if (drawn < announced) again = true;
    document.querySelectorAll("[data-live-seq]").forEach(x => { x.textContent = count(drawn); });
    if (said) label(...said);
    document.dispatchEvent(new CustomEvent("deskyard:renewed"));
    if (here()?.matches("[data-poll]")) label("Live", true);
  } catch { label("Offline", false); }
  finally { busy = false; if (again) setTimeout(renew, 250); }
};

const dial = () => {
  const at = document.querySelector("[data-live]");
  if (!at) return;
  socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${at.dataset.socket}?after=${at.dataset.seq}`);
  socket.onopen = () => { wait = 500; label("Live", true); renew(); };
  socket.onmessage = e => { announced = Math.max(announced, JSON.parse(e.data).seq); renew(); };
  socket.onclose = e => {
    if (!document.querySelector("[data-live]")) return;
    if (e.code === 4404) { label("Offline", false); return; }
    label("Offline, connecting again", false);
    setTimeout(dial, wait); wait = Math.min(wait * 2, 15000);
  };
};
document.addEventListener("deskyard:renewed", () => { if (socket && !document.querySelector("[data-live]")) { socket.close(); socket = null; } });
dial();
/* pages without a run of their own look again every few seconds, and live ones now and then, while somebody looks */
const every = +(document.querySelector("[data-poll]")?.dataset.poll || 0);
if (every) { label("Live", true); setInterval(() => { if (!document.hidden && document.querySelector("[data-poll]")) renew(); }, every * 1000); }
setInterval(() => { if (!document.hidden && document.querySelector("[data-live]")) renew(); }, 10000);
/* an ended run whose receipt waits for the last word of a worker */
setInterval(() => { if (!document.hidden && !document.querySelector("[data-live]") && document.querySelector("[data-wait]")) renew(); }, 3000);

/* clocks that go on between two fetches */
const clock = s => { const h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60, two = n => String(n).padStart(2, "0"); return h ? `${h}:${two(m)}:${two(s % 60)}` : `${m}:${two(s % 60)}`; };
setInterval(() => document.querySelectorAll("[data-since]").forEach(x => {
  const s = Math.floor((Date.now() - Date.parse(x.dataset.since)) / 1000);
  if (s >= 0 && s < 86400) x.textContent = clock(s);
}), 1000);

/* what a cell of the grid stands for, fetched when pointed at or focused */
const tip = document.createElement("div");
tip.className = "tip sheet floating"; tip.hidden = true; tip.setAttribute("role", "tooltip"); tip.id = "cell-tip";
document.body.append(tip);
const known = new Map();
let over;
const show = async cell => {
  over = cell;
  if (!known.has(cell.href)) {
    const reply = await fetch(`${cell.href}card/`, { credentials: "same-origin" });
    if (!reply.ok) return;
    known.set(cell.href, await reply.text());
    setTimeout(() => known.delete(cell.href), 5000);
  }
  if (over !== cell) return;
  tip.innerHTML = known.get(cell.href); tip.hidden = false; cell.setAttribute("aria-describedby", tip.id);
  const box = cell.getBoundingClientRect(), own = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(box.left - 12, innerWidth - own.width - 8))}px`;
  tip.style.top = `${box.top > own.height + 12 ? box.top - own.height - 6 : box.bottom + 6}px`;
};
const hide = () => { over = null; tip.hidden = true; };
for (const [on, off] of [["pointerover", "pointerout"], ["focusin", "focusout"]]) {
  document.addEventListener(on, e => { const cell = e.target.closest?.("[data-cards] a.cell"); if (cell && cell !== over) show(cell); });
  document.addEventListener(off, e => { if (e.target.closest?.("[data-cards] a.cell")) hide(); });
}
document.addEventListener("scroll", hide, { passive: true, capture: true });
document.addEventListener("keydown", e => { if (e.key === "Escape") hide(); });
