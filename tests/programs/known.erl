%% Runs functions whose callers and depths are known, for some milliseconds: `erl -run known main 1500`.
-module(known).
-export([main/1, outer/1, deep/2, spin/1]).

main([Milliseconds]) ->
    work(erlang:monotonic_time(millisecond) + list_to_integer(Milliseconds)).

work(End) ->
    outer(3),
    case erlang:monotonic_time(millisecond) < End of
        true -> work(End);
        false -> init:stop()
    end.

outer(N) -> 1 + deep(20, N).

%% Calls itself 20 times, so that 21 frames stand below `spin`.
deep(0, N) -> 1 + spin(N * 100000);
deep(Depth, N) -> 1 + deep(Depth - 1, N).

spin(0) -> 0;
spin(N) -> spin(N - 1).
