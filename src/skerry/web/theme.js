// Light, dark, or as the system has it. Loaded before the first paint, so it is no module.
{
  const NAME = "skerry.theme";
  const root = document.documentElement;
  const apply = (theme) => {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
  };
  try {
    apply(localStorage.getItem(NAME));
  } catch {
    // A browser that forbids storage shows what the system has.
  }
  document.addEventListener("change", ({ target }) => {
    if (target.name !== "theme") return;
    apply(target.value);
    try {
      localStorage.setItem(NAME, target.value);
    } catch {
      // It holds until the page is left.
    }
  });
  document.addEventListener("DOMContentLoaded", () => {
    const chosen = document.querySelector(`[name=theme][value=${root.dataset.theme ?? "auto"}]`);
    if (chosen) chosen.checked = true;
  });
}
