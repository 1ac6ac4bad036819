"""One call of the example's client, whose answer is printed: CALL KEY TEXT [ID]. A line on standard input ends it."""

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
    return {"isNew": (await jobs.start(key, given)).is_new}


async def main() -> None:
    converter = DataConverter.default
    if os.environ.get("CODEC"):
        converter = dataclasses.replace(converter, payload_codec=ZlibCodec())
    address, namespace = os.environ["TEMPORAL_ADDRESS"], os.environ["TEMPORAL_NAMESPACE"]
    client = await Client.connect(address, namespace=namespace, data_converter=converter)
    call = asyncio.create_task(perform(AgentJobs(client, os.environ["AGENT_JOBS_TASK_QUEUE"]), *sys.argv[1:]))
    asyncio.get_running_loop().add_reader(sys.stdin, call.cancel)
    print(json.dumps(await call), flush=True)


asyncio.run(main())
# The client's own threads can crash an interpreter that is about to end, when all is said.
os._exit(0)
