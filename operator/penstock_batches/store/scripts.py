"""The Lua scripts of `RedisStore`: each is one atomic step.

The client sends a script again if its reply is lost, possibly after others ran: the second run changes nothing. `LEASE` alone
leases further lines then, and the first ones are leased again when their time is over.
"""

from typing import Final

ADD_BATCH: Final = """
-- KEYS batch, batches of the tenant, active  ARGV id, record, status, created_at, expires_at
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'record', ARGV[2], 'status', ARGV[3], 'revision', 0,
  'total', 0, 'completed', 0, 'failed', 0)
redis.call('ZADD', KEYS[2], ARGV[4], ARGV[1])
redis.call('ZADD', KEYS[3], ARGV[5], ARGV[1])
return 1
"""

WRITE: Final = """
-- KEYS batch, active, ended  ARGV id, revision that was read, record, status, ended, expires_at
if redis.call('HGET', KEYS[1], 'revision') ~= ARGV[2] then
  return redis.call('HGET', KEYS[1], 'record') == ARGV[3] and 1 or 0  -- 1: this very write, sent again
end
redis.call('HSET', KEYS[1], 'record', ARGV[3], 'status', ARGV[4], 'revision', ARGV[2] + 1)
if ARGV[5] == '1' then
  redis.call('ZREM', KEYS[2], ARGV[1])
  redis.call('ZADD', KEYS[3], ARGV[6], ARGV[1])
end
return 1
"""

CLAIM: Final = """
-- KEYS claim  ARGV owner, milliseconds
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""

ADD_LINES: Final = """
-- KEYS lines  ARGV group, (number, offset, length) ...   An entry's id is its line's number.
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
end
local last = 0
local info = redis.call('XINFO', 'STREAM', KEYS[1])
for i = 1, #info, 2 do
  if info[i] == 'last-generated-id' then last = tonumber(string.match(info[i + 1], '^%d+')) end
end
for i = 2, #ARGV, 3 do
  if tonumber(ARGV[i]) > last then
    redis.call('XADD', KEYS[1], ARGV[i] .. '-0', 'o', ARGV[i + 1], 'l', ARGV[i + 2])
  end
end
return last
"""

LEASE: Final = """
-- KEYS batch, lines  ARGV group, owner, limit, milliseconds of a lease
if redis.call('HGET', KEYS[1], 'status') ~= 'in_progress' then return {} end
local limit, entries, cursor = tonumber(ARGV[3]), {}, '0-0'
repeat
  local claimed = redis.call('XAUTOCLAIM', KEYS[2], ARGV[1], ARGV[2], ARGV[4], cursor, 'COUNT', limit - #entries)
  cursor = claimed[1]
  for _, entry in ipairs(claimed[2]) do
    if entry then entries[#entries + 1] = entry end
  end
until cursor == '0-0' or #entries >= limit
if #entries < limit then
  local fresh = redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', limit - #entries, 'STREAMS', KEYS[2], '>')
  if fresh then
    for _, entry in ipairs(fresh[1][2]) do entries[#entries + 1] = entry end
  end
end
return entries
"""

SET_IDLE: Final = """
-- KEYS lines  ARGV group, owner, milliseconds of idleness, number ...   Only leases that the owner still has.
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local changed = 0
for i = 4, #ARGV do
  local id = ARGV[i] .. '-0'
  local pending = redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1, ARGV[2])
  if #pending > 0 then
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id, 'IDLE', ARGV[3], 'JUSTID')
    changed = changed + 1
  end
end
return changed
"""

ANSWER: Final = """
-- KEYS batch, answers, lines  ARGV group, (number, answer, ok) ...
local status = redis.call('HGET', KEYS[1], 'status')
if status ~= 'in_progress' and status ~= 'validating' then return {} end
local first, completed, failed = {}, 0, 0
for i = 2, #ARGV, 3 do
  if redis.call('HSETNX', KEYS[2], ARGV[i], ARGV[i + 1]) == 1 then
    first[#first + 1] = tonumber(ARGV[i])
    if ARGV[i + 2] == '1' then completed = completed + 1 else failed = failed + 1 end
  end
  redis.call('XACK', KEYS[3], ARGV[1], ARGV[i] .. '-0')
  redis.call('XDEL', KEYS[3], ARGV[i] .. '-0')
end
redis.call('HINCRBY', KEYS[1], 'completed', completed)
redis.call('HINCRBY', KEYS[1], 'failed', failed)
return first
"""
