# SPDX-License-Identifier: Apache-2.0
"""Names that a target can have, made to break out of whatever shows them. A script that runs sets
window.pwned, or opens a dialog."""

RUN = "window.pwned=1;alert(1)"
NAMES = [
    "<script>%s</script>" % RUN,
    "</title><script>%s</script>" % RUN,
    "</text></g></svg><script>%s</script>" % RUN,
    "]]><script>%s</script><![CDATA[" % RUN,
    "</script><script>%s</script>" % RUN,
    "<![CDATA[<script>%s</script>]]>" % RUN,
    '"><img src=x onerror="%s">' % RUN,
    "'><svg onload='%s'>" % RUN,
    '" onmouseover="%s" x="' % RUN,
    "<img src=x onerror=%s>" % RUN,
    "<a xlink:href='javascript:%s'>x</a>" % RUN,
    "<foreignObject><iframe srcdoc='<script>parent.pwned=1</script>'/></foreignObject>",
    "<!--", "-->", "<!DOCTYPE x [<!ENTITY y SYSTEM 'file:///etc/passwd'>]>&y;", "<?xml-stylesheet href='x'?>",
    "&lt;script&gt;%s&lt;/script&gt;" % RUN, "&#60;script&#62;", "&amp;amp;", "&nbsp;", "&#0;", "%s;%n%x" + "%d" * 20,
    "${%s}" % RUN, "`%s`" % RUN, "{{constructor.constructor('%s')()}}" % RUN, "javascript:" + RUN,
    "__proto__", "constructor", "toString", "\\", "\\\\", "\\'", '\\"', "\\u003cscript\\u003e", "a\\", "'", '"',
    "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x9b31m", "\r\nx", "\t", "\x7f", "\x00", "a\0b", "\b\b\b",
    "\u202egnirts", "\u2066x\u2069", "\u200bzero", "\ufeffbom", "\ufffe", "\uffff", "\ud800", "\udfff\ud83d", "\U0010ffff",
    b"\xff\xfe\xfd", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"<\xff>", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
    "\u2028\u2029", "e\u0301" * 50, "\u0600" * 10, "\U0001f600" * 30, "\u6f22\u5b57" * 40, "x" * 5000, "<" * 600, "&" * 600,
    " ", "  lead", "trail  ", "a b;c|d", "=cmd|'/c calc'!A0", "@SUM(1)", "+1", "-1", "#!/bin/sh", "$(reboot)", "../../x",
]
