// A second click within a minute would be refused.
addEventListener("submit", function (event) {
  var button = event.target.querySelector("button");
  button.disabled = true;
  setTimeout(function () { button.disabled = false; }, 10000);
});
// Gone back to: it may have woken since, and the button may have run out.
addEventListener("pageshow", function (event) {
  if (event.persisted) location.replace(location.href.split("#")[0]);
});
