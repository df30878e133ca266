/* The live view of a desktop. A ticket from the console opens one socket; through it comes what the desktop's screen says
   (binary, RFB, drawn by noVNC) and how the view stands (text). Without this script the page shows the last picture. */
import RFB from "./novnc/core/rfb.js";

let box = document.querySelector("[data-watch]");
const part = name => box.querySelector(`[data-${name}]`);
const ACK_BYTES = 32768, AGAIN_MS = 1000, TRIES = 5;
let rfb, socket, tries = 0, driving = false;

const say = (state, words) => { box.dataset.state = state; part("watch-word").textContent = words; part("watch-mode").hidden = state !== "live"; };
const mode = words => { part("watch-mode").querySelector("span").textContent = words; };

/* what noVNC takes for its socket */
const channel = wire => ({
  binaryType: "arraybuffer", protocol: "", onopen: null, onmessage: null, onclose: null, onerror: null,
  get readyState() { return wire.readyState; },
  send: data => wire.send(data),
  close: () => wire.close(),
});

const show = line => {
  const screen = part("screen");
  rfb = new RFB(screen, line, { shared: true });
  rfb.viewOnly = !driving;
  rfb.focusOnClick = driving;
  rfb.scaleViewport = true;
  rfb.showDotCursor = driving;
  rfb.background = "#17181c";
  screen.setAttribute("role", driving ? "application" : "img");
  screen.setAttribute("aria-label", screen.getAttribute("aria-label").replace(/view-only|you hold it/, driving ? "you hold it" : "view-only"));
  screen.hidden = false;
  part("still").hidden = true;
  if (driving) rfb.focus();
};

/* noVNC takes its screen away once it hears that the line is closed */
const hangUp = () => { const old = socket; socket = rfb = null; old?.close(); };

/* `again` only where asking anew may help: a desktop that has ended does not come back */
const over = (words, again) => {
  hangUp();
  driving = false;
  delete box.dataset.driving;
  part("screen").hidden = true;
  part("screen").replaceChildren();
  part("still").hidden = false;
  part("let-go").hidden = true;
  part("again").hidden = !again;
  say("over", words);
};

const ask = async drive => {
  const headers = { "X-CSRFToken": JSON.parse(document.body.getAttribute("hx-headers"))["X-CSRFToken"] };
  const reply = await fetch(drive ? box.dataset.takeOver : box.dataset.ticket, { method: "POST", credentials: "same-origin", headers });
  if (reply.ok && !reply.redirected) return (await reply.json()).socket;
  if (reply.status === 409) throw Object.assign(new Error((await reply.json()).detail), { gone: !drive });
  throw new Error(reply.status === 403 ? "You may watch this desktop, but not take it over." : "You may not see this desktop. Sign in again, or ask for access.");
};

const open = async drive => {
  part("again").hidden = true;
  say("waiting", drive ? "Taking over…" : "Connecting…");
  let address;
  try { address = await ask(drive); }
  catch (refused) { over(refused instanceof TypeError ? "The console does not answer." : refused.message, !refused.gone); return; }
  const wire = socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${address}`);
  const line = channel(wire);
  let got = 0, told = 0, lived = false, end = { state: "again", detail: "The connection ended." };
  driving = drive;
  wire.binaryType = "arraybuffer";
  wire.onmessage = e => {
    if (wire !== socket) return;
    if (typeof e.data !== "string") {
      got += e.data.byteLength;
      line.onmessage?.(e);
      if (got - told >= ACK_BYTES) { told = got; wire.send(JSON.stringify({ type: "seen", bytes: got })); }
      return;
    }
    const news = JSON.parse(e.data);
    if (news.state === "waiting") say("waiting", news.detail);
    else if (news.state === "live") {
      tries = 0;
      lived = true;
      if (drive) { box.dataset.driving = ""; part("let-go").hidden = false; }
      mode(drive ? "You hold it" : "View-only");
      say("live", drive ? "You type and click. Ctrl+Alt+Esc leaves the screen for the page." : "Your keys and clicks do not reach the desktop.");
      show(line);
    } else end = news;
  };
  wire.onclose = () => {
    line.onclose?.({ code: 1000 });
    if (wire !== socket) return;
    const stays = "stays" in box.dataset;
    if (drive && lived && !stays) over(end.state === "again" ? "You hold the desktop no longer; it is ending." : end.detail, false);
    else if (end.state === "again" && tries < TRIES) { tries += 1; over(`${end.detail} Connecting again…`, false); setTimeout(() => { if (!socket) open(false); }, AGAIN_MS * tries); }
    else over(end.detail, end.state === "again" || drive || stays);
  };
};

/* a second socket replaces the first */
const replace = drive => { hangUp(); part("screen").replaceChildren(); tries = 0; open(drive); };

let begun = false;
/* a page that renews itself may come to have a screen later */
const begin = () => {
  box = document.querySelector("[data-watch]");
  if (begun || !box) return;
  begun = true;
  document.addEventListener("click", e => {
    if (e.target.closest("[data-take]")) replace(true);
    else if (e.target.closest("[data-let-go]")) "stays" in box.dataset ? replace(false) : over("You have let go; the desktop is ending.", false);
    else if (e.target.closest("[data-again]")) replace(false);
    else if (e.target.closest("[data-full]")) box.querySelector(".stage").requestFullscreen?.();
  });
  /* noVNC takes every key while its screen has the focus */
  document.addEventListener("keydown", e => {
    if (driving && e.ctrlKey && e.altKey && e.key === "Escape") { e.preventDefault(); e.stopImmediatePropagation(); rfb?.blur(); part("let-go").focus(); }
  }, true);
  open(false);
};
begin();
document.addEventListener("deskyard:renewed", begin);
