"""Documents that try to be more than text, for the tests of the page: markup, scripts, directions, control characters, sizes."""

# What a script of theirs would leave behind.
MARK = "window.hostile = 1"

SCRIPT = f"<script>{MARK}</script>"
IMAGE = f"<img src=x onerror='{MARK}'>"


def documents():
    """20 documents; the word `specimen` is in all of them, so that one question finds them."""
    texts = [
        ("script", f"{SCRIPT} specimen", f"specimen {SCRIPT} and </script><script>{MARK}</script>"),
        ("image", IMAGE, f"specimen {IMAGE}"),
        ("svg", f"<svg onload='{MARK}'>", f"specimen <svg/onload=\"{MARK}\"><script xlink:href='data:,{MARK}'></script></svg>"),
        ("link", "javascript:window.hostile=1", "specimen <a href='javascript:window.hostile=1'>javascript:window.hostile=1</a>"),
        ("frame", "<iframe srcdoc='<script>parent.hostile=1</script>'>", "specimen <iframe src='https://elsewhere.invalid/'></iframe>"),
        (
            "style",
            "<style>*{display:none}</style>",
            "specimen <link rel=stylesheet href=//elsewhere.invalid/x.css><style>body{background:url(//elsewhere.invalid)}</style>",
        ),
        (
            "quotes",
            "\"' onmouseover='window.hostile=1' x='",
            'specimen " autofocus onfocus=window.hostile=1 " \' ` ${window.hostile=1} {{1+1}} \\',
        ),
        ("comment", "--><!--", f"specimen ]]> --> </title></textarea></style></noscript>{SCRIPT}"),
        (
            "template",
            "</template><base href=https://elsewhere.invalid/>",
            "specimen <meta http-equiv=refresh content='0;url=https://elsewhere.invalid/'>",
        ),
        (
            "form",
            "<form action=//elsewhere.invalid><input name=q>",
            "specimen <button formaction=javascript:window.hostile=1>x</button><dialog open>x</dialog>",
        ),
        (
            "override",
            "\u202egnp.exe \u2066 specimen",
            "specimen \u202eright to left override without an end \u2067 and isolates \u2068 without one",
        ),
        (
            "zero-width",
            "sp\u200bec\u200dim\ufeffen \u2060\u00ad",
            "specimen with\u200bout wid\u200dth \ufeff\u2060\u00ad and \U000e0041\U000e0042 tags",
        ),
        ("one-line", "specimen of one line", "specimen " + "x" * 1_000_000),
        ("title", "specimen " + "very long title without end " * 3000, "specimen text"),
        ("word", "W" * 5000, "specimen " + "https://elsewhere.invalid/" + "a" * 5000),
        ("controls", "specimen \u0001\u0007\u001b[31m\u007f\u0085", "specimen \u0008\u000b\u000c\u001b]0;title\u0007 \u009b31m"),
        ("emoji", "specimen 👩‍👩‍👧‍👦🏳️‍🌈🇺🇳", "specimen 🤦🏽‍♀️" * 20 + " Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘"),
        ("rtl", "نموذج specimen דוגמה", "هذا نص من اليمين إلى اليسار specimen، وفيه English وأرقام 123. " + "עברית " * 30),
        ("metadata", "specimen of metadata", "specimen"),
        (
            "entities",
            "&lt;script&gt; specimen &amp;amp; &#x3c;",
            "specimen &lt;img src=x onerror=window.hostile=1&gt; %3Cscript%3E \\u003cscript\\u003e",
        ),
    ]
    for number, (key, title, text) in enumerate(texts):
        metadata = {"number": number, "lang": "en" if number % 2 else "de"}
        if key == "metadata":
            metadata |= {
                "__proto__": {"polluted": "yes"},
                "constructor": {"prototype": {"polluted": "yes"}},
                "toString": "text",
                IMAGE: SCRIPT,
                "\u202eyek": "\u202eeulav",
                "long" * 200: "v" * 3000,
                "deep": {"a": {"b": {"c": {"d": [1, {"e": None}]}}}},
                "many": {f"field {at}": at for at in range(400)},
            }
        yield {"_id": key, "title": title, "text": text, "metadata": metadata}


# Keys are text too.
KEYS = {"image": f"k{IMAGE}", "override": "k\u202eyek", "quotes": "k\"'`&<>", "word": "k" * 2000}


def corpus():
    """The documents under keys that are hostile themselves."""
    for document in documents():
        yield document | {"_id": KEYS.get(document["_id"], document["_id"])}
