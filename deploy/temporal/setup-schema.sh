#!/bin/sh
# Makes both databases where they are missing and brings their schemas up to this image's version. Safe to run again.
# SQL_HOST, SQL_PORT, SQL_USER, SQL_PASSWORD and SQL_PLUGIN are read by the tool itself.
set -eu

SCHEMA_FOLDER=${SCHEMA_FOLDER:-/etc/temporal/schema/postgresql/v12}

setup() { # database, folder of its schema
  temporal-sql-tool --db "$1" create-database
  temporal-sql-tool --db "$1" setup-schema --version 0.0
  temporal-sql-tool --db "$1" update-schema --schema-dir "$SCHEMA_FOLDER/$2/versioned"
}

setup temporal temporal
setup temporal_visibility visibility
