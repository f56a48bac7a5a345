"""Who works on what: leases of batches and of sessions to index, in Redis scripts.

A lease ends when its work is acknowledged or its time (the server's clock) is over; then anybody may take the work.
Work is only acknowledged by its owner, so a worker that lost its lease during a slow call changes nothing. One batch
of a session is leased at a time, in the order they were planned, because a later batch's gems may repeat an earlier
one's.
"""

from __future__ import annotations

from neuralstream.capture.triggers import DISTIL_GROUP, INDEX_GROUP

__all__ = [
    "BREAK",
    "DONE",
    "FAIL",
    "FORGET_SESSION",
    "FORGET_TURNS",
    "INDEXED",
    "LEASE",
    "RECORD",
    "RENEW",
    "RETRY",
    "TAKE_UNINDEXED",
]

_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""

_RELEASE = """
-- An entry leaves the stream when both groups are through with it.
local function through(turns, left, entry)
  if redis.call('HINCRBY', left, entry, -1) <= 0 then
    redis.call('HDEL', left, entry)
    redis.call('XDEL', turns, entry)
  end
end
"""

# KEYS: batches. ARGV: prefix, owner, lease in ms, "1" where no other live process can own one.
# Returns the leased batch's id and fields, or nothing.
LEASE = (
    _NOW
    + """
local prefix, owner, lease, sole = unpack(ARGV)
local busy = {}
local from, page = 0, 100
while true do
  local ids = redis.call('ZRANGE', KEYS[1], from, from + page - 1)
  for _, id in ipairs(ids) do
    local key = prefix .. ':batch:' .. id
    local fields = redis.call('HMGET', key, 'owner', 'lease_until', 'session_key')
    local held = tonumber(fields[2]) > now and fields[1] ~= owner and not (sole == '1' and fields[1] ~= '')
    if not held and not busy[fields[3]] then
      redis.call('HSET', key, 'owner', owner, 'lease_until', now + lease)
      return {id, redis.call('HGETALL', key)}
    end
    busy[fields[3]] = true
  end
  if #ids < page then return nil end
  from = from + page
end
"""
)

# KEYS: batch. ARGV: owner, lease in ms. Returns 1 while the batch is still the owner's.
RENEW = (
    _NOW
    + """
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'lease_until', now + ARGV[2])
return 1
"""
)

# KEYS: batch. ARGV: owner, answer. Writes the answer down where there is none; returns the one that counts, or nothing
# where the batch is not the owner's any more.
RECORD = """
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return nil end
redis.call('HSETNX', KEYS[1], 'answer', ARGV[2])
return redis.call('HGET', KEYS[1], 'answer')
"""

# KEYS: a lock. ARGV: owner. Takes the lock from whoever is not the owner.
BREAK = """
local held = redis.call('GET', KEYS[1])
if held and string.sub(held, 1, #ARGV[1]) ~= ARGV[1] then redis.call('DEL', KEYS[1]) end
"""

# KEYS: turns, session, seen, left, lock, owners, activity, unindexed, sessions, batches, dead letters.
# ARGV: prefix, session key, user, session. Removes everything of a session; returns how many turn ids it knew.
FORGET_SESSION = """
local turns, session, seen, left, lock, owners, activity, unindexed, sessions, batches, dead = unpack(KEYS)
local prefix, session_key, user, session_id = unpack(ARGV)
for _, id in ipairs(redis.call('ZRANGE', batches, 0, -1)) do
  local key = prefix .. ':batch:' .. id
  if redis.call('HGET', key, 'session_key') == session_key then
    redis.call('DEL', key)
    redis.call('ZREM', batches, id)
  end
end
for _, letter in ipairs(redis.call('XRANGE', dead, '-', '+')) do
  local fields = {}
  for i = 1, #letter[2], 2 do fields[letter[2][i]] = letter[2][i + 1] end
  if fields['user'] == user and fields['session'] == session_id then
    redis.call('DEL', prefix .. ':batch:' .. fields['batch'])
    redis.call('XDEL', dead, letter[1])
  end
end
local ids = redis.call('HKEYS', seen)
for _, id in ipairs(ids) do redis.call('HDEL', owners, id) end
redis.call('DEL', turns, session, seen, left, lock, prefix .. ':planned:' .. session_key)
redis.call('ZREM', activity, session_key)
redis.call('SREM', unindexed, session_key)
redis.call('SREM', sessions, session_key)
return #ids
"""

# KEYS: turns, session, seen, left, owners, unindexed, batches, counters, dead letters. ARGV: prefix, session key, turn
# ids... Removes single turns of a session. A batch that held one loses its recorded answer; a dead letter of it, which
# may quote it, is queued again. Returns how many ids it knew.
FORGET_TURNS = f"""
local turns, session, seen, left, owners, unindexed, batches, counters, dead = unpack(KEYS)
local prefix, session_key = unpack(ARGV, 1, 2)

local function later(entry, last)
  local ms, number = string.match(entry, '(%d+)-(%d+)')
  local last_ms, last_number = string.match(last or '0-0', '(%d+)-(%d+)')
  if ms ~= last_ms then return tonumber(ms) > tonumber(last_ms) end
  return tonumber(number) > tonumber(last_number)
end

local gone, drop, known = {{}}, {{}}, 0
for i = 3, #ARGV do
  gone[ARGV[i]] = true
  redis.call('HDEL', owners, ARGV[i])
  known = known + redis.call('HDEL', seen, ARGV[i])
end
local planned, indexed = unpack(redis.call('HMGET', session, 'planned_entry', 'indexed_entry'))
for _, entry in ipairs(redis.call('XRANGE', turns, '-', '+')) do
  local id = entry[1]
  for f = 1, #entry[2], 2 do
    if entry[2][f] == 'id' and gone[entry[2][f + 1]] then drop[id] = true end
  end
  if drop[id] then
    redis.call('XACK', turns, '{INDEX_GROUP}', id)
    redis.call('XACK', turns, '{DISTIL_GROUP}', id)
    redis.call('XDEL', turns, id)
    redis.call('HDEL', left, id)
    if later(id, planned) then redis.call('HINCRBY', session, 'undistilled', -1) end
    if later(id, indexed) then redis.call('HINCRBY', session, 'unindexed', -1) end
  end
end
if tonumber(redis.call('HGET', session, 'unindexed') or 0) <= 0 then redis.call('SREM', unindexed, session_key) end

local function rewrite(batch_id, letter)
  local batch = prefix .. ':batch:' .. batch_id
  if redis.call('HGET', batch, 'session_key') ~= session_key then return end
  local kept, lost = {{}}, false
  for entry in string.gmatch(redis.call('HGET', batch, 'entries'), '%S+') do
    if drop[entry] then lost = true else kept[#kept + 1] = entry end
  end
  if not lost then return end
  if letter then redis.call('XDEL', dead, letter) end
  if #kept == 0 then
    redis.call('ZREM', batches, batch_id)
    redis.call('DEL', batch)
    return
  end
  redis.call('HSET', batch, 'entries', table.concat(kept, ' '))
  redis.call('HDEL', batch, 'answer', 'reason')
  if letter then
    redis.call('HSET', batch, 'attempts', 0, 'owner', '', 'lease_until', 0)
    redis.call('ZADD', batches, redis.call('HINCRBY', counters, 'planned', 1), batch_id)
  end
end

for _, batch_id in ipairs(redis.call('ZRANGE', batches, 0, -1)) do rewrite(batch_id) end
for _, letter in ipairs(redis.call('XRANGE', dead, '-', '+')) do
  for f = 1, #letter[2], 2 do
    if letter[2][f] == 'batch' then rewrite(letter[2][f + 1], letter[1]) end
  end
end
return known
"""

# KEYS: batch, batches, counters, turns, left, session. ARGV: batch id, owner. Returns 1 where it was the owner's to
# acknowledge.
DONE = (
    _RELEASE
    + f"""
local batch, batches, counters, turns, left, session = unpack(KEYS)
if redis.call('HGET', batch, 'owner') ~= ARGV[2] then return 0 end
for entry in string.gmatch(redis.call('HGET', batch, 'entries'), '%S+') do
  redis.call('XACK', turns, '{DISTIL_GROUP}', entry)
  through(turns, left, entry)
end
redis.call('DEL', batch)
redis.call('ZREM', batches, ARGV[1])
redis.call('HINCRBY', counters, 'batches_done', 1)
redis.call('HINCRBY', session, 'batches_done', 1)
return 1
"""
)

# KEYS: batch, batches, dead letters. ARGV: batch id, owner, reason, most attempts, ms until the next try, and an answer
# that could not be used. Most attempts of "0" gives the batch back without counting the try. Returns 1 where the batch
# became a dead letter; its turns stay in the stream and its recorded answer in the batch.
FAIL = (
    _NOW
    + """
local batch, batches, dead = unpack(KEYS)
if redis.call('HGET', batch, 'owner') ~= ARGV[2] then return 0 end
redis.call('HSET', batch, 'owner', '', 'reason', ARGV[3], 'lease_until', now + ARGV[5])
if ARGV[4] == '0' then return 0 end
if redis.call('HINCRBY', batch, 'attempts', 1) < tonumber(ARGV[4]) then return 0 end
redis.call('ZREM', batches, ARGV[1])
redis.call('XADD', dead, '*', 'batch', ARGV[1], 'user', redis.call('HGET', batch, 'user'),
           'session', redis.call('HGET', batch, 'session'), 'reason', ARGV[3], 'answer', ARGV[6])
return 1
"""
)

# KEYS: batch, batches, counters, dead letters. ARGV: batch id, dead letter's entry id. Queues a dead letter's batch
# again.
RETRY = """
local batch, batches, counters, dead = unpack(KEYS)
redis.call('XDEL', dead, ARGV[2])
if redis.call('EXISTS', batch) == 0 then return 0 end
redis.call('HSET', batch, 'attempts', 0, 'owner', '', 'lease_until', 0)
redis.call('HDEL', batch, 'answer', 'reason')
redis.call('ZADD', batches, redis.call('HINCRBY', counters, 'planned', 1), ARGV[1])
return 1
"""

# KEYS: turns, lock. ARGV: owner, lease in ms, most entries, "1" where no other live process can own one.
# Returns the oldest unindexed entries: first what an earlier owner took and did not finish, then new ones. Nothing
# while locked.
TAKE_UNINDEXED = f"""
local turns, lock = unpack(KEYS)
local owner = redis.call('GET', lock)
if owner and owner ~= ARGV[1] and ARGV[4] ~= '1' then return nil end
redis.call('SET', lock, ARGV[1], 'PX', ARGV[2])
if redis.call('EXISTS', turns) == 0 then return nil end
local entries = {{}}
for _, from in ipairs({{'0', '>'}}) do
  local read = redis.call('XREADGROUP', 'GROUP', '{INDEX_GROUP}', 'indexer', 'COUNT', ARGV[3], 'STREAMS', turns, from)
  if read and #read[1][2] > 0 then return read[1][2] end
end
return nil
"""

# KEYS: turns, left, session, unindexed, lock. ARGV: session key, owner, entries... Acknowledges indexed entries, in
# order.
INDEXED = (
    _RELEASE
    + f"""
local turns, left, session, unindexed, lock = unpack(KEYS)
-- Indexing twice gives the same points: a lock that has merely run out is no reason to do it again.
local held = redis.call('GET', lock)
if held and held ~= ARGV[2] then return 0 end
for i = 3, #ARGV do
  if redis.call('XACK', turns, '{INDEX_GROUP}', ARGV[i]) == 1 then
    redis.call('HINCRBY', session, 'unindexed', -1)
    through(turns, left, ARGV[i])
  end
end
redis.call('HSET', session, 'indexed_entry', ARGV[#ARGV])
redis.call('DEL', lock)
if tonumber(redis.call('HGET', session, 'unindexed')) <= 0 then redis.call('SREM', unindexed, ARGV[1]) end
return 1
"""
)
