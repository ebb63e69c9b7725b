// A second click within a minute would be refused.
addEventListener("submit", function (event) {
  var button = event.target.querySelector("button");
  var said = button.textContent;
  button.disabled = true;
  button.textContent = "Waking…";
  setTimeout(function () { button.disabled = false; button.textContent = said; }, 10000);
});
// Gone back to: it may have woken since, and the button may have run out.
addEventListener("pageshow", function (event) {
  if (event.persisted) location.replace(location.href.split("#")[0]);
});
