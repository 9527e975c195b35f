// Sets the stored colour scheme before the first paint, so that a dark page does not flash white.
// A file of its own because the content security policy refuses inline scripts.
(function () {
  var stored = null;
  try {
    stored = localStorage.getItem("plait-color-scheme");
  } catch {
    // Storage may be refused; the system's preference is then what remains.
  }
  var chosen = stored === "light" || stored === "dark" ? stored : null;
  var system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.setAttribute("data-mantine-color-scheme", chosen || system);
})();
