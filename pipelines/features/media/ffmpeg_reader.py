"""The wanted tracks of a source through ffmpeg, kept in step with each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.errors import SourceError
from pipelines.features.media.audio import AudioTrackReader
from pipelines.features.media.container import (
    MICROSECOND,
    Source,
    frame_rate,
    is_url,
    local_path,
    open_container,
    reason,
    select_streams,
    source_name,
)
from pipelines.features.media.damage import OWN_LENGTH, missing_bytes, missing_seconds
from pipelines.features.media.info import AudioBlock, MissingTrackError, VideoFrame
from pipelines.features.media.probe import describe
from pipelines.features.media.skipped_pictures import SkippedPictures
from pipelines.features.media.timeline import Timeline
from pipelines.features.media.video import VideoTrackReader

# Seconds by which one track may trail the other before it counts as having a gap. Rows of the other wait that long:
# a file may be interleaved badly, but a live view cannot stand still.
LARGEST_SKEW, LARGEST_LIVE_SKEW = 120.0, 5.0
SEEK_FROM = 5.0  # seconds; before that, decoding from the beginning costs nothing
RUN_UP = 1.0  # seconds decoded ahead of a seek target: audio codecs need some frames to be exact again
ROUNDING = 1e-3  # seconds of silence more than needed, so that rounded times do not cost the last row


class FfmpegReader:
    """One pass over a source from `start` until `stop` has been reached by every wanted track."""

    def __init__(
        self,
        source: Source,
        audio: bool,
        video: bool,
        audio_rate: int | None,
        start: float,
        stop: float,
        format: str | None,
        options: Mapping[str, str] | None,
        live: bool,
        in_step: bool,
        pictures_from: float = 0.0,
    ) -> None:
        self._in_step = in_step
        self._skipped: SkippedPictures | None = None
        self.damage: str | None = None
        self._name = source_name(source)
        self._path = local_path(source, format)
        self._start, self._stop = start, stop
        self._skew = LARGEST_LIVE_SKEW if live else LARGEST_SKEW
        self._bad_packets = 0
        self._bad_at_the_end = 0  # those after which nothing came
        self._audio: AudioTrackReader | None = None
        self._video: VideoTrackReader | None = None
        self._streams: list[Any] = []
        self._container = open_container(source, format, options)
        try:
            self.info = describe(source, self._container)
            begin = self._container.start_time
            self._origin = begin * MICROSECOND if begin is not None else 0.0
            audio_stream, video_stream = select_streams(self._container)
            if audio:
                self._open_audio(audio_stream, audio_rate)
            if video:
                self._open_video(video_stream, live)
            if pictures_from > 0 and self._video is not None:
                self._skipped = SkippedPictures(video_stream.index, pictures_from, self._origin, self.info.duration)
            if start >= SEEK_FROM and not is_url(source) and self.info.duration is not None:
                self._seek()
        except BaseException:
            self.close()
            raise

    @property
    def end(self) -> float:
        """Media time up to which some wanted track is known."""
        return max(track.end for track in self._tracks)

    @property
    def flawless(self) -> bool:
        """Whether nothing wrong was seen so far."""
        tracks = sum(track.late + track.jumps for track in self._tracks)
        skipped = self._skipped is None or self._skipped.flawless
        heard = self._audio is None or not self._audio.not_finite
        return not (self._bad_packets or tracks or self.damage) and skipped and heard

    def empty_tracks(self) -> list[str]:
        """The kinds of wanted tracks that gave nothing."""
        empty = ["audio"] if self._audio is not None and not self._audio.heard else []
        return empty + (["video"] if self._video is not None and not self._video.shown else [])

    def close(self) -> None:
        self._container.close()

    def __iter__(self) -> Iterator[AudioBlock | VideoFrame]:
        import av

        whole = True
        for track, frame in self._frames():
            try:
                yield from track.push(frame)
            except (av.error.FFmpegError, ValueError):
                self._bad_packets += 1
            yield from self._keep_in_step(self._skew)
            if min(track.end for track in self._tracks) >= self._stop:
                whole = False
                break
        yield from self._keep_in_step(0.0)
        if self._video is not None:
            yield from self._video.finish()
        if self._audio is not None:
            yield from self._audio.flush()
        self._judge(whole)

    @property
    def _tracks(self) -> list[AudioTrackReader | VideoTrackReader]:
        return [track for track in (self._audio, self._video) if track is not None]

    def _open_audio(self, stream: Any | None, rate: int | None) -> None:
        if stream is None:
            raise MissingTrackError(self._name, "audio")
        track_rate = stream.codec_context.sample_rate
        if not track_rate:
            raise SourceError(self._name, "the audio track states no sample rate")
        timeline = Timeline(self._origin, self.info.duration)
        self._audio = AudioTrackReader(timeline, track_rate, rate, self._start)
        self._streams.append(stream)

    def _open_video(self, stream: Any | None, live: bool) -> None:
        if stream is None:
            raise MissingTrackError(self._name, "video")
        context = stream.codec_context
        # Frame threads hold several pictures back; a live view cannot wait for them.
        context.thread_type = "SLICE" if live else "AUTO"
        size = (context.width or 16, context.height or 16)
        timeline = Timeline(self._origin, self.info.duration)
        self._video = VideoTrackReader(timeline, context.name, frame_rate(stream), size, self._start)
        self._streams.append(stream)

    def _seek(self) -> None:
        import av

        target = int((self._start - RUN_UP + self._origin) / MICROSECOND)
        try:
            self._container.seek(target, backward=True)
        except av.error.FFmpegError:
            return  # not seekable: decode from where we are and drop what comes before the start

    def _frames(self) -> Iterator[tuple[AudioTrackReader | VideoTrackReader, Any]]:
        """Every frame of the wanted tracks that can be decoded; damage is counted, not raised."""
        import av

        tracks = dict(zip((stream.index for stream in self._streams), self._tracks, strict=True))
        try:
            for packet in self._packets():
                try:
                    frames = packet.decode()
                except av.error.EOFError:
                    continue
                except (av.error.FFmpegError, ValueError):
                    self._bad_packets += 1
                    self._bad_at_the_end += 1
                    continue
                for frame in frames:
                    self._bad_at_the_end = 0
                    if self._skipped is None or self._skipped.is_whole(packet.stream.index, frame):
                        yield tracks[packet.stream.index], frame
            return
        except (av.error.FFmpegError, OSError) as error:
            self.damage = f"reading stopped early ({reason(error)})"
        for stream in self._streams:
            try:
                frames = stream.codec_context.decode(None)
            except (av.error.FFmpegError, ValueError):
                continue  # that the source is damaged is known already
            for frame in frames:
                yield tracks[stream.index], frame

    def _packets(self) -> Iterator[Any]:
        """The packets of the wanted streams, but for pictures that are skipped."""
        while True:
            try:
                packets = self._container.demux(self._streams)
                yield from packets if self._skipped is None else self._skipped.without(packets)
                return
            except IndexError:
                # A stream has appeared that the start did not announce (in transport streams it may). PyAV gives up
                # on its first packet; asked again, it goes on with the next.
                continue

    def _keep_in_step(self, skew: float) -> Iterator[AudioBlock | VideoFrame]:
        """Let no wanted track trail the other by more than `skew` seconds."""
        if self._audio is None or self._video is None or not self._in_step:
            return
        if self._skipped is not None and self._skipped.under_way:
            self._skipped.compare(self._audio.end, skew)
            return
        audio, video = self._audio.end, self._video.end
        if audio < video - skew:
            yield from self._audio.fill_to(video + ROUNDING)
        elif video < audio - skew:
            yield from self._video.fill_to(audio)

    def _judge(self, whole: bool) -> None:
        """Set `damage` from what was seen; `whole`: the source was read to its end."""
        problems = [self.damage] if self.damage else []
        if whole and self._path is not None and self._path.is_file():
            ends = dict(zip(self._streams, (track.source_end for track in self._tracks), strict=True))
            seconds = missing_seconds(self._container, ends, self._origin)
            lacking = missing_bytes(self._path)
            # Where the size is stated it decides: the stated length of a track may well be the container's.
            if lacking or (lacking is None and seconds):
                problems.append("the file ends in the middle" + (f", {seconds:.1f} s are missing" if seconds else ""))
            elif seconds > max(ends.values()) and OWN_LENGTH & set(self._container.format.name.split(",")):
                # More than half: a last picture that stays may account for less.
                problems.append(f"a track is {seconds:.1f} s shorter than its header says")
        # A last packet that cannot be decoded, of a file that was played to its end: many encoders leave one.
        leftover = whole and not problems and self._bad_packets == self._bad_at_the_end == 1
        if self._bad_packets and not leftover:
            problems.append(f"packets that cannot be decoded: {self._bad_packets}")
        late = sum(track.late for track in self._tracks)
        if late:
            problems.append(f"the tracks are stored too far apart, frames that came too late: {late}")
        jumps = sum(track.jumps for track in self._tracks)
        if jumps:
            problems.append(f"impossible timestamps: {jumps}")
        if self._audio is not None and self._audio.not_finite:
            problems.append(f"audio samples that are NaN or infinite: {self._audio.not_finite}")
        self.damage = "; ".join(problems) or None
