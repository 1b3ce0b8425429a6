# Judges letters with Mail::DKIM: the first argument is a JSON object of DNS name -> TXT record, each other one a
# letter. Prints for each letter its path and "pass", or what Mail::DKIM says; nothing is asked of any name server.
use strict;
use warnings;
use JSON::PP;
use Mail::DKIM::DNS;
use Mail::DKIM::Verifier;
use Net::DNS;

package Records;

sub new { my ($class, $records) = @_; return bless { records => $records }, $class }
sub errorstring { return 'NOERROR' }

sub send {
    my ($self, $name, $type) = @_;
    my $packet = Net::DNS::Packet->new($name, $type);
    my $record = $self->{records}{ lc $name };
    $packet->push(answer => Net::DNS::RR->new(name => $name, type => 'TXT', txtdata => [ $record =~ /.{1,255}/gs ]))
        if defined $record;
    return $packet;
}

package main;

sub content {
    my ($path) = @_;
    open my $file, '<:raw', $path or die "$path: $!";
    local $/;
    return scalar <$file>;
}

my $records = shift @ARGV;
Mail::DKIM::DNS::resolver(Records->new(decode_json(content($records))));
for my $path (@ARGV) {
    my $judge = Mail::DKIM::Verifier->new;
    $judge->PRINT(content($path));
    $judge->CLOSE;
    my @results = map { $_->result_detail } $judge->signatures;
    my ($bad) = grep { $_ ne 'pass' } @results;
    print "$path ", @results ? $bad // 'pass' : 'no DKIM-Signature', "\n";
}
