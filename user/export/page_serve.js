// In front of speedscope's script where a server has the profile beside the page.
location.hash = "profileURL=profile";
