#!/bin/sh
# Creates both databases if they are missing, and upgrades their schemas to this image's version. Safe to run again.
# The tool itself reads SQL_HOST, SQL_PORT, SQL_USER, SQL_PASSWORD and SQL_PLUGIN.
set -eu

SCHEMA_FOLDER=${SCHEMA_FOLDER:-/etc/temporal/schema/postgresql/v12}
ATTEMPTS=${ATTEMPTS:-30}
PAUSE=${PAUSE:-2}

# The server puts the password unescaped between quotes in its configuration and in its database address.
case $SQL_PASSWORD in
  '' | *[\"\\[:space:]]*)
    echo 'POSTGRES_PASSWORD must be set, without ", \ and white space; for example the output of: openssl rand -hex 24' >&2
    exit 1
    ;;
esac

# A database that answered a moment ago may be restarting, for example after its first start.
retry() {
  attempts=1
  until "$@"; do
    if [ "$attempts" -ge "$ATTEMPTS" ]; then
      echo "gave up after $attempts attempts" >&2
      return 1
    fi
    attempts=$((attempts + 1))
    sleep "$PAUSE"
  done
}

setup() { # database, folder of its schema
  retry temporal-sql-tool --db "$1" create-database
  retry temporal-sql-tool --db "$1" setup-schema --version 0.0
  retry temporal-sql-tool --db "$1" update-schema --schema-dir "$SCHEMA_FOLDER/$2/versioned"
}

setup temporal temporal
setup temporal_visibility visibility
echo 'both databases are ready'
