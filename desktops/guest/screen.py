"""The screen: grab it and encode it."""

from __future__ import annotations

import ctypes
import ctypes.util
import threading

from fpng import fpng_ext

_ZPIXMAP = 2
_ALL_PLANES = ctypes.c_ulong(-1).value
# pixman's names of four-byte and of three-byte pixels, red first in memory in the second, and of plain copying
_PIXMAN_X8R8G8B8, _PIXMAN_B8G8R8, _PIXMAN_SRC = 0x20020888, 0x18030888, 1
_IPC_PRIVATE, _IPC_CREAT_RW, _IPC_RMID = 0, 0o1600, 0


class _Segment(ctypes.Structure):
    """XShmSegmentInfo."""

    _fields_ = [
        ("shmseg", ctypes.c_ulong),
        ("shmid", ctypes.c_int),
        ("shmaddr", ctypes.c_void_p),
        ("read_only", ctypes.c_int),
    ]


class _ImageHead(ctypes.Structure):
    """The start of XImage: all that is read here."""

    _fields_ = [
        ("width", ctypes.c_int),
        ("height", ctypes.c_int),
        ("xoffset", ctypes.c_int),
        ("format", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("byte_order", ctypes.c_int),
        ("bitmap_unit", ctypes.c_int),
        ("bitmap_bit_order", ctypes.c_int),
        ("bitmap_pad", ctypes.c_int),
        ("depth", ctypes.c_int),
        ("bytes_per_line", ctypes.c_int),
    ]


def _library(name: str) -> ctypes.CDLL:
    return ctypes.CDLL(ctypes.util.find_library(name), use_errno=True)


class Screen:
    """Grabs the root window through shared memory (0.4 ms for 1920×1080) and encodes it with fpng."""

    def __init__(self, display: str) -> None:
        self._lock = threading.Lock()
        self._x, self._ext, self._c = _library("X11"), _library("Xext"), _library("c")
        pointer = ctypes.c_void_p
        self._x.XOpenDisplay.restype = pointer
        self._x.XDefaultRootWindow.argtypes = [pointer]
        self._x.XDefaultRootWindow.restype = ctypes.c_ulong
        self._x.XDefaultVisual.argtypes = [pointer, ctypes.c_int]
        self._x.XDefaultVisual.restype = pointer
        for name in ("XDisplayWidth", "XDisplayHeight", "XDefaultDepth"):
            getattr(self._x, name).argtypes = [pointer, ctypes.c_int]
        self._x.XSync.argtypes = [pointer, ctypes.c_int]
        self._ext.XShmCreateImage.restype = ctypes.POINTER(_ImageHead)
        self._ext.XShmCreateImage.argtypes = [
            pointer,
            pointer,
            ctypes.c_uint,
            ctypes.c_int,
            pointer,
            ctypes.POINTER(_Segment),
            ctypes.c_uint,
            ctypes.c_uint,
        ]
        self._ext.XShmAttach.argtypes = [pointer, ctypes.POINTER(_Segment)]
        self._ext.XShmGetImage.argtypes = [
            pointer,
            ctypes.c_ulong,
            ctypes.POINTER(_ImageHead),
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_ulong,
        ]
        self._c.shmat.restype = pointer
        self._c.shmat.argtypes = [ctypes.c_int, pointer, ctypes.c_int]
        self._open(display)

    def _open(self, display: str) -> None:
        self._display = self._x.XOpenDisplay(display.encode())
        if not self._display:
            raise OSError(f"no X server at {display}")
        self.width = self._x.XDisplayWidth(self._display, 0)
        self.height = self._x.XDisplayHeight(self._display, 0)
        depth = self._x.XDefaultDepth(self._display, 0)
        self._root = self._x.XDefaultRootWindow(self._display)
        self._segment = _Segment()
        visual = self._x.XDefaultVisual(self._display, 0)
        self._image = self._ext.XShmCreateImage(
            self._display,
            visual,
            depth,
            _ZPIXMAP,
            None,
            ctypes.byref(self._segment),
            self.width,
            self.height,
        )
        self._stride = self._image.contents.bytes_per_line
        size = self._stride * self.height
        self._segment.shmid = self._c.shmget(_IPC_PRIVATE, size, _IPC_CREAT_RW)
        if self._segment.shmid < 0:
            raise OSError(ctypes.get_errno(), "no shared memory for the screen")
        address = self._c.shmat(self._segment.shmid, None, 0)
        self._segment.shmaddr = address
        self._image.contents.data = address
        self._segment.read_only = 0
        attached = self._ext.XShmAttach(self._display, ctypes.byref(self._segment))
        self._x.XSync(self._display, 0)
        # Marked for removal now, gone when the last of us detaches: nothing is left behind by a kill.
        self._c.shmctl(self._segment.shmid, _IPC_RMID, None)
        if not attached:
            raise OSError("the X server does not share memory")
        self._packed = _Packer(address, self.width, self.height, self._stride)

    def png(self) -> bytes:
        """The screen as it is now, as PNG: fast rather than small."""
        with self._lock:
            got = self._ext.XShmGetImage(self._display, self._root, self._image, 0, 0, _ALL_PLANES)
            if not got:
                raise OSError("the X server did not give the screen")
            return bytes(fpng_ext.encode_image_to_memory(self._packed.rgb(), self.width, self.height, 3))


class _Packer:
    """Four bytes a pixel to three, by pixman: about twice as fast as Pillow. The encoder takes nothing but `bytes`, so
    pixman writes each screen into the same object; a copy would cost as much as the packing."""

    def __init__(self, address: int, width: int, height: int, stride: int) -> None:
        self._pixman = _library("pixman-1")
        self._size = (width, height)
        create = self._pixman.pixman_image_create_bits
        create.restype = ctypes.c_void_p
        create.argtypes = [ctypes.c_uint, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
        self._composite = self._pixman.pixman_image_composite32
        self._composite.argtypes = [ctypes.c_int, *[ctypes.c_void_p] * 3, *[ctypes.c_int32] * 8]
        self._rgb = bytes(width * height * 3)
        self._source = create(_PIXMAN_X8R8G8B8, width, height, address, stride)
        self._target = create(_PIXMAN_B8G8R8, width, height, ctypes.c_char_p(self._rgb), width * 3)
        if not self._source or not self._target:
            raise OSError("pixman cannot read the screen's pixels")

    def rgb(self) -> bytes:
        """The screen's pixels until the next call."""
        self._composite(_PIXMAN_SRC, self._source, None, self._target, 0, 0, 0, 0, 0, 0, *self._size)
        return self._rgb
