"""Checks webhook signatures with the PyPI package standardwebhooks, as a receiver would.

One JSON object per line on stdin, {"headers": {...}, "body_base64": "...", "secret": "whsec_..."}; one line on
stdout for each: "ok", or "fail" and the reason.
"""

import base64
import json
import sys

from standardwebhooks.webhooks import Webhook


def verdict(line: str) -> str:
    request = json.loads(line)
    body = base64.b64decode(request["body_base64"])
    try:
        # The body may be any text; what the package makes of JSON is not the question here.
        Webhook(request["secret"]).verify(body, request["headers"], json_parse=False)
    except Exception as err:  # whatever a receiver's framework would have turned into a refusal
        return f"fail {type(err).__name__}: {' '.join(str(err).split())}"
    return "ok"


for each in sys.stdin:
    print(verdict(each), flush=True)
