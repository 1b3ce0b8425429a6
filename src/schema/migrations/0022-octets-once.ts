// The octets of a received message are written once. What changes while it waits has a small table of its own, and what
// judging and reading find stands beside its parsed contents: so its row, with its octets, is not written again. A text
// that stands in the octets as it is, is named by its part.
//
// The columns of inbound_messages that this replaces stay, for to remove them would write every message again. Nothing
// waits by them any more; `authentication` is that of older messages.

export const octetsOnce = `
create table inbound_waiting (
  message_key integer primary key references inbound_messages on delete cascade,
  attempts integer not null,
  next_attempt_at integer not null
) strict;
insert into inbound_waiting
  select key, attempts, next_attempt_at from inbound_messages where next_attempt_at is not null;
update inbound_messages set attempts = 0, next_attempt_at = null where next_attempt_at is not null;
drop index inbound_messages_due;

alter table inbound_bodies add column text_part integer;
alter table inbound_bodies add column html_part integer;
alter table inbound_bodies add column authentication text;
`
