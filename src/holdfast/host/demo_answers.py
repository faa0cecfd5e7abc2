"""Longer answers of the demo model, written the way that models like to write."""

MARKDOWN = """\
## What a run is made of

A run goes from **one input** to *one true ending*. Everything in between is an event in a log, and the log \
is what you are looking at: there is ~~a second store~~ no second store to reconcile.

### In three steps

1. The message is on disk before anyone acts on it.
2. The model is called; every piece of its answer is **saved, then shown**:
   - a stalled connection is closed and opened again,
   - a half answer is replaced, never doubled.
3. Tools run, and their effects are written down *before* they happen.

- [x] survive a reload
- [x] survive `kill -9`
- [ ] make coffee

```python
from holdfast import events


def fold(pairs: Iterable[tuple[int, Event]]) -> Transcript:
    \"\"\"The transcript of a whole log, or of the first part of one.\"\"\"
    transcript = Transcript()
    for seq, event in pairs:  # the same order for everyone
        apply(transcript, seq, event)
    return transcript
```

| outcome | what it means | retry |
|:--------|:--------------|------:|
| `completed` | the model said so | no |
| `cancelled` | a person stopped it, and everything stopped | yes |
| `interrupted` | the server was away; what was saved is here | yes |

> A crash is a pause. After a restart the run continues by itself, and no effect happens twice.

```diff
- state = load_from_somewhere()
+ state = fold(journal.read(session_id))
```

Links are [links](https://example.com/docs), and an image from elsewhere waits for a click: \
![a diagram of the log](https://example.com/log.png). HTML is text: <b onclick="alert(1)">not bold</b>.

---

That is all. Ask for `tool` to see one at work.
"""
