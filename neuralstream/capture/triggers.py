"""When turns are due for distilling, decided inside Redis so that a decision and what follows from it are one step.

A trigger *plans* batches: it takes the oldest turns that no batch has taken, writes down which they are, and queues
the batch. Because that happens in one script together with what caused it, a process killed at any point leaves
either no trace of the trigger or the whole plan, and running again forms the very same batches.

Four scripts plan: `CAPTURE` (a full batch), `TURN_END` (context use crosses the threshold), `IDLE` (silence) and
`END` (session end, reset, compaction, shutdown). Each fires once per crossing.

Every script gets the same KEYS: turns stream, session hash, seen hash, left hash, owners hash, activity, batches,
counters, unindexed, sessions; and ARGV[1..5]: key prefix, session key, user, session, batch size. What follows is the
script's own.
"""

from __future__ import annotations

__all__ = ["CAPTURE", "DISTIL_GROUP", "END", "IDLE", "INDEX_GROUP", "TURN_END"]

INDEX_GROUP = "index"
DISTIL_GROUP = "distil"

_PRELUDE = f"""
local turns, session, seen, left, owners, activity, batches, counters, unindexed, sessions = unpack(KEYS)
local prefix, session_key, user, session_id, batch_size = unpack(ARGV, 1, 5)
batch_size = tonumber(batch_size)

-- Take the oldest `count` turns that no batch has taken, and queue them as one batch. Returns how many there were.
local function plan(count, trigger)
  if redis.call('EXISTS', turns) == 0 then return 0 end
  local read = redis.call('XREADGROUP', 'GROUP', '{DISTIL_GROUP}', 'planner', 'COUNT', count, 'STREAMS', turns, '>')
  if not read then return 0 end
  local entries, turn_ids, last_index = {{}}, {{}}, nil
  for i, entry in ipairs(read[1][2]) do
    entries[i] = entry[1]
    for f = 1, #entry[2], 2 do
      if entry[2][f] == 'id' then turn_ids[i] = entry[2][f + 1] end
      if entry[2][f] == 'index' then last_index = entry[2][f + 1] end
    end
  end
  local batch_id = redis.sha1hex(session_key .. '\\n' .. table.concat(turn_ids, '\\n'))
  redis.call('HSET', prefix .. ':batch:' .. batch_id, 'user', user, 'session', session_id, 'session_key', session_key,
             'trigger', trigger, 'entries', table.concat(entries, ' '), 'attempts', 0, 'owner', '', 'lease_until', 0)
  redis.call('HDEL', prefix .. ':batch:' .. batch_id, 'answer', 'reason')
  redis.call('ZADD', batches, redis.call('HINCRBY', counters, 'planned', 1), batch_id)
  redis.call('HINCRBY', session, 'undistilled', -#entries)
  redis.call('HSET', session, 'planned_entry', entries[#entries])
  redis.call('HSET', prefix .. ':planned:' .. session_key, last_index, trigger)
  return #entries
end

local function plan_all(trigger)
  local planned = 0
  while true do
    local taken = plan(batch_size, trigger)
    if taken == 0 then return planned end
    planned = planned + 1
  end
end
"""

# ARGV[6..8]: turn id, the turn as JSON, now in seconds. Returns 1 where it is new, 0 where it is
# known, -1 where another session of the user has a turn of this id.
CAPTURE = (
    _PRELUDE
    + f"""
local turn_id, turn, now = unpack(ARGV, 6, 8)
if redis.call('HEXISTS', seen, turn_id) == 1 then return 0 end
if redis.call('HEXISTS', owners, turn_id) == 1 then return -1 end
if redis.call('EXISTS', turns) == 0 then
  redis.call('XGROUP', 'CREATE', turns, '{INDEX_GROUP}', '0', 'MKSTREAM')
  redis.call('XGROUP', 'CREATE', turns, '{DISTIL_GROUP}', '0')
end
local index = redis.call('HINCRBY', session, 'captured', 1) - 1
local entry = redis.call('XADD', turns, '*', 'id', turn_id, 'index', index, 'turn', turn)
redis.call('HSET', seen, turn_id, index)
redis.call('HSET', owners, turn_id, session_key)
redis.call('HSET', left, entry, 2)
redis.call('ZADD', activity, now, session_key)
redis.call('SADD', sessions, session_key)
redis.call('SADD', unindexed, session_key)
redis.call('HINCRBY', session, 'unindexed', 1)
redis.call('HINCRBY', counters, 'captured', 1)
if redis.call('HINCRBY', session, 'undistilled', 1) >= batch_size then plan(batch_size, 'batch') end
return 1
"""
)

# ARGV[6..8]: percent, threshold, and the index of the turn that the usage belongs to, or -1. Returns 1 where it fired.
TURN_END = (
    _PRELUDE
    + """
local percent, threshold, index = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
if index >= 0 then
  -- A log that is replayed again reports the same usage again: each turn's counts once.
  if index <= tonumber(redis.call('HGET', session, 'usage_index') or -1) then return 0 end
  redis.call('HSET', session, 'usage_index', index)
end
if percent < threshold then redis.call('HSET', session, 'above', 0) return 0 end
if redis.call('HGET', session, 'above') == '1' then return 0 end
redis.call('HSET', session, 'above', 1)
plan_all('context')
return 1
"""
)

# ARGV[6]: seconds; a session whose last activity is not later is idle. Returns the number of batches planned.
IDLE = (
    _PRELUDE
    + """
local last = redis.call('ZSCORE', activity, session_key)
if not last or tonumber(last) > tonumber(ARGV[6]) then return 0 end
redis.call('ZREM', activity, session_key)
return plan_all('idle')
"""
)

# ARGV[6]: what ended: end, reset, compaction, shutdown. Returns the number of batches planned.
END = (
    _PRELUDE
    + """
redis.call('ZREM', activity, session_key)
-- After these the host's context is small again; after the others it is as full as it was.
if ARGV[6] == 'reset' or ARGV[6] == 'compaction' then redis.call('HSET', session, 'above', 0) end
return plan_all(ARGV[6])
"""
)
