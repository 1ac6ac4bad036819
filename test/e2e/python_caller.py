"""Calls of the example's client: each is a line of JSON, whose args are CALL KEY TEXT [ID], and so is its answer.

A line with `giveUp` cancels the call of that number.
"""

import asyncio
import dataclasses
import json
import os
import sys
import zlib
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.converter import DataConverter, PayloadCodec

from agent_jobs import AgentJobs, FollowUpRefused, FollowUpUnconfirmed


class ZlibCodec(PayloadCodec):
    async def encode(self, payloads: Any) -> list[Payload]:
        deflated = [zlib.compress(payload.SerializeToString()) for payload in payloads]
        return [Payload(metadata={"encoding": b"binary/zlib"}, data=data) for data in deflated]

    async def decode(self, payloads: Any) -> list[Payload]:
        return [Payload.FromString(zlib.decompress(payload.data)) for payload in payloads]


async def perform(jobs: AgentJobs, call: str, key: str, text: str, id: str | None = None) -> dict[str, Any]:
    project = os.environ["PROJECT"]
    if call == "followUp":
        return {"state": (await jobs.job(project, key).follow_up(text, id=id))["state"]}
    given: Any = {"prompt": text} if call == "start" else {"jobId": text, "usedFollowUpIds": []}
    return {"isNew": (await jobs.start(key, {"projectId": project, **given})).is_new}


async def answer(call: Any) -> None:
    try:
        converter = DataConverter.default
        if call["codec"]:
            converter = dataclasses.replace(converter, payload_codec=ZlibCodec())
        namespace = os.environ["TEMPORAL_NAMESPACE"]
        client = await Client.connect(call["address"], namespace=namespace, data_converter=converter)
        said = await perform(AgentJobs(client, os.environ["AGENT_JOBS_TASK_QUEUE"]), *call["args"])
    except FollowUpUnconfirmed as error:
        said = {"error": "unconfirmed", "id": error.id}
    except FollowUpRefused:
        said = {"error": "refused"}
    except (Exception, asyncio.CancelledError) as error:
        said = {"error": type(error).__name__}
    print(json.dumps({"number": call["number"], "answer": said}), flush=True)


async def main() -> None:
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    calls: dict[int, asyncio.Task[None]] = {}
    while line := await lines.readline():
        call = json.loads(line)
        if "giveUp" in call:
            calls[call["giveUp"]].cancel()
        else:
            calls[call["number"]] = asyncio.create_task(answer(call))


asyncio.run(main())
# The client's own threads can crash an interpreter that is about to end, when all is said.
os._exit(0)
