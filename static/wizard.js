/* New run: what the server does at each press, sooner. Without scripts the buttons of the form do the same. */
const form = document.querySelector("form[data-step=workload]");
if (form) {
  const rows = [...form.querySelectorAll(".picker tbody tr")].map(row => ({ row, box: row.querySelector("input"), words: row.dataset.words, apps: row.dataset.apps.split(" "), recipe: "recipe" in row.dataset }));
  const q = form.elements.q, app = form.elements.app, all = form.querySelector("[data-all]"), none = form.querySelector("[data-none]");
  const apps = [...form.querySelectorAll("[data-app]")];
  const elsewhere = () => +form.querySelector(".picker").dataset.elsewhere;
  const count = () => {
    const n = rows.filter(one => one.box.checked).length + elsewhere();
    document.querySelectorAll("[data-picked]").forEach(place => { place.textContent = n.toLocaleString("en"); });
    const open = rows.filter(one => !one.row.hidden && !one.box.disabled), on = open.filter(one => one.box.checked).length;
    if (all) { all.checked = open.length > 0 && on === open.length; all.indeterminate = on > 0 && on < open.length; }
  };
  const show = () => {
    const words = q.value.toLowerCase().split(/\s+/).filter(Boolean);
    let n = 0;
    for (const one of rows) {
      const fits = words.every(word => one.words.includes(word)) && (!app.value || one.apps.includes(app.value))
        && (!form.elements.recipe.checked || one.recipe) && (!form.elements.chosen.checked || one.box.checked);
      one.row.hidden = !fits;
      n += fits;
    }
    none.hidden = n > 0;
    count();
  };
  if (q) {
    all.hidden = false;
    // A page that the server filtered holds only a part: then the server goes on filtering.
    if ("whole" in form.querySelector(".picker").dataset) {
      q.addEventListener("input", show);
      q.addEventListener("keydown", e => { if (e.key === "Enter") e.preventDefault(); });
      ["recipe", "chosen"].forEach(name => form.elements[name].addEventListener("change", show));
      apps.forEach(button => button.addEventListener("click", e => {
        e.preventDefault();
        app.value = button.dataset.app;
        apps.forEach(other => { if (other === button) other.setAttribute("aria-current", "true"); else other.removeAttribute("aria-current"); });
        show();
      }));
    } else ["recipe", "chosen"].forEach(name => form.elements[name].addEventListener("change", () => form.requestSubmit(form.querySelector(".apply"))));
    form.elements.task_set.addEventListener("change", () => form.requestSubmit(form.querySelector(".apply")));
    all.addEventListener("change", () => { rows.forEach(one => { if (!one.row.hidden && !one.box.disabled) one.box.checked = all.checked; }); count(); });
    rows.forEach(one => one.box.addEventListener("change", count));
    count();
  }
}
/* the four forms of the request stand below each other without scripts, behind tabs with them */
document.querySelectorAll("[data-tucked]").forEach(panel => { panel.hidden = true; });
/* a step that was refused: the keyboard starts at the note */
const wrong = document.querySelector("#wrong a");
if (wrong) wrong.focus();
