// Figures of DMARC reports that answer quickly, and say what is evidence. `dmarc_days` has the sources of a day in few
// rows; it is made again when a figure of that day has changed.

export const reportDays = `
alter table dmarc_figures add column evidence real not null default 0;
alter table dmarc_figures add column addresses integer not null default 0;
update dmarc_figures set evidence = min(messages, 1000);
alter table report_pieces add column share real not null default 1;

create table dmarc_days (
  user_key integer not null references users on delete cascade,
  domain_key integer not null references domains on delete cascade,
  day integer not null,
  names text not null,
  own text not null,
  sources text not null,
  primary key (domain_key, day)
) strict, without rowid;
create trigger dmarc_figures_added after insert on dmarc_figures begin
  delete from dmarc_days where domain_key = new.domain_key and day = new.day;
end;
create trigger dmarc_figures_changed after update on dmarc_figures begin
  delete from dmarc_days where domain_key = new.domain_key and day = new.day;
end;
create trigger dmarc_figures_gone after delete on dmarc_figures begin
  delete from dmarc_days where domain_key = old.domain_key and day = old.day;
end;
`
