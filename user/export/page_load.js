// Hands the profile that is in the page to speedscope, once its page has made the function for it.
(function () {
  "use strict";
  var note = document.getElementById("note");
  function load() {
    if (!window.speedscope) {
      setTimeout(load, 5);
      return;
    }
    window.speedscope.loadFileFromBase64("pyebpf", document.getElementById("profile").textContent);
  }
  if (note) note.addEventListener("click", function () { note.remove(); });
  load();
})();
