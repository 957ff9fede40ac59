-- The next fence, by the clock every time: whoever asks may have connected before the server's data was lost.
local function mint(floor) return next_fence(fence, '@' .. floor) end

-- Begins a hold. One that is handed over says whether the work before it was saved. Gives the hold and its text.
local function give(person, ask, count, left_ms, saved)
  local is_handed = saved ~= nil
  local hold = {version = 1, fence = whole(count), step = 0, user = person.user, name = person.name, tab = person.tab}
  hold.since_ms, hold.until_ms, hold.ask = now_ms, now_ms + left_ms, ask
  hold.unclaimed, hold.saved = is_handed or nil, saved
  local text = write_hold(hold)
  begin_past(hold)
  tell(is_handed and 'document_force_taken' or 'document_locked', person, saved, describe(text))
  return hold, text
end

-- Gives what has just ended to whoever marked it. They have 5 s to claim it, so that one that died costs no more.
local function hand_over(ended, saved)
  return give(ended.taking, ended.taking.ask, mint('0'), 5000, saved)
end

-- Ends a hold by the will of whoever has it. Gives the text of the hold that follows, if one does.
local function give_back(hold, reason, saved)
  if hold.taking then
    end_hold(hold, 'taken', now_ms, hold.taking)
    return select(2, hand_over(hold, saved))
  end
  end_hold(hold, reason, now_ms, hold)
  tell('document_unlocked', hold, nil, describe())
end
