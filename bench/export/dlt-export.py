"""The export as dlt's own documentation suggests it. Arguments: upstream URL, key, folder to write."""

import sys

import dlt
from dlt.sources.rest_api import rest_api_source

url, key, folder = sys.argv[1:4]
source = rest_api_source(
    {
        "client": {
            "base_url": f"{url}/v1/analytics/bench/",
            "auth": {"type": "bearer", "token": key},
            "paginator": {"type": "offset", "limit": 250, "total_path": None, "has_more_path": "hasMore"},
        },
        "resources": [
            {
                "name": "visitors",
                "endpoint": {
                    "path": "visitors",
                    "params": {"dateFrom": "2026-01-01", "dateTo": "2026-01-02"},
                    "data_selector": "visitors",
                },
                "write_disposition": "replace",
            }
        ],
    }
)
pipeline = dlt.pipeline(
    "visitors",
    destination=dlt.destinations.filesystem(bucket_url=f"file://{folder}"),
    dataset_name="visitors",
    pipelines_dir=f"{folder}.state",
)
pipeline.run(source, loader_file_format="parquet" if "--parquet" in sys.argv else "jsonl")
