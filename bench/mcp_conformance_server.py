"""The official conformance kit against this server's Model Context Protocol transport.

python bench/mcp_conformance_server.py KIT_DIR [--versions 2025-11-25 2026-07-28]. KIT_DIR is where
`npm i --prefix DIR node@24 @modelcontextprotocol/conformance` was run.

The kit calls example tools, resources and prompts by name. `ExampleService` has them, behind the same
transport, access checks and streams as the agent's own service. So the kit covers the transport, versions,
sessions, headers and streams; what the agent's tools do is covered by tests/server/mcp. Subscriptions and
tasks of the examples are not the agent's, so those scenarios only show that the messages have their form.
"""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp_examples import ExampleService
from starlette.routing import Router
from starlette.types import ASGIApp

from holdfast.api.operations import OPERATIONS
from holdfast.host.http_server import serving
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.memory import MemoryStore
from holdfast.redaction import NO_SECRETS
from holdfast.server.access.auth import KeyRing, SignIns
from holdfast.server.access.keys import AddedKeys
from holdfast.server.access.middleware import Access, AccessMiddleware
from holdfast.server.access.tickets import Tickets
from holdfast.server.mcp.transport import McpRoutes
from holdfast.server.options import Limits, ServerOptions
from holdfast.server.routing import api_routes
from holdfast.server.streams.stream import Streams

# Left out: what the examples would need a server for that is not this one.
LEFT_OUT = {"sep-2640": "an extension for skills, which this server does not have"}
WITHIN_S = 120.0
