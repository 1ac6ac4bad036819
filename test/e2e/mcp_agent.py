"""An agent's part in a job, by the official client: prints what each tool answered as a line of JSON.

Arguments: a project and a prompt, then the URL of a server, or the command of one on standard input and output.
"""

import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters


async def main(project: str, prompt: str, server: list[str]) -> None:
    by_http = server[0].startswith("http")
    target = server[0] if by_http else StdioServerParameters(command=server[0], args=server[1:], env=dict(os.environ))
    async with Client(target) as client:

        async def call(tool: str, **arguments: object) -> dict:
            result = await client.call_tool(tool, {"projectId": project, **arguments})
            print(json.dumps({"isError": result.is_error, "body": result.structured_content}), flush=True)
            return result.structured_content

        print(json.dumps([tool.name for tool in (await client.list_tools()).tools]), flush=True)
        started = await call("start_job", prompt=prompt, settle=0)
        await call("start_job", prompt=prompt, settle=0)
        await call("send_follow_up", key=started["key"], prompt="and the tests", id="tests")
        await call("wait_for_job", key=started["key"])
        await call("get_job", key="no such job")


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
