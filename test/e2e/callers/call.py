"""Calls of the example's client, each a line of JSON whose args are CALL KEY TEXT [ID]: it prints one with the answer.

An empty line gives the call up that is under way.
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
        try:
            answer = await jobs.job(project, key).follow_up(text, id=id)
            return {"state": answer["state"]}
        except FollowUpUnconfirmed as error:
            return {"error": "unconfirmed", "id": error.id}
        except FollowUpRefused:
            return {"error": "refused"}
    given: Any = {"projectId": project, ("prompt" if call == "start" else "jobId"): text}
    try:
        return {"isNew": (await jobs.start(key, given)).is_new}
    except ValueError:
        return {"error": "invalid"}


async def answer(given: Any) -> None:
    converter = DataConverter.default
    if given["codec"]:
        converter = dataclasses.replace(converter, payload_codec=ZlibCodec())
    client = await Client.connect(
        given["address"], namespace=os.environ["TEMPORAL_NAMESPACE"], data_converter=converter
    )
    jobs = AgentJobs(client, os.environ["AGENT_JOBS_TASK_QUEUE"])
    print(json.dumps(await perform(jobs, *given["args"])), flush=True)


async def main() -> None:
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with asyncio.TaskGroup() as calls:
        call = None
        while line := await lines.readline():
            if line.strip():
                call = calls.create_task(answer(json.loads(line)))
            elif call:
                call.cancel()


asyncio.run(main())
# The client's own threads can crash an interpreter that is about to end, when all is said.
os._exit(0)
